package interop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// quorumAnswer is what LighthouseClient.quorum returned.
type quorumAnswer struct {
	QuorumID     int64 `json:"quorum_id"`
	Participants []struct {
		ReplicaID    string `json:"replica_id"`
		Address      string
		StoreAddress string `json:"store_address"`
		Step         int64
		WorldSize    int64 `json:"world_size"`
		ShrinkOnly   bool  `json:"shrink_only"`
		Data         map[string]any
	}
}

func (q quorumAnswer) ids() []string {
	var ids []string
	for _, p := range q.Participants {
		ids = append(ids, p.ReplicaID)
	}
	return ids
}

// plan is what ManagerClient._quorum returned.
type plan struct {
	QuorumID    int64    `json:"quorum_id"`
	Rank        int      `json:"replica_rank"`
	WorldSize   int      `json:"replica_world_size"`
	Store       string   `json:"store_address"`
	MaxStep     int64    `json:"max_step"`
	MaxRank     *int     `json:"max_replica_rank"`
	MaxWorld    int      `json:"max_world_size"`
	Heal        bool     `json:"heal"`
	Source      string   `json:"recover_src_manager_address"`
	SourceRank  *int     `json:"recover_src_replica_rank"`
	Targets     []int    `json:"recover_dst_replica_ranks"`
	ReplicaIDs  []string `json:"replica_ids"`
	HandlesOfIt []string `json:"reconfigure_handles"`
}

func serve(t *testing.T, min int) string {
	t.Helper()
	l := lighthousetest.Start(t, func(c *lighthouse.Config) { c.Rules.MinReplicas = min })
	return "http://" + l.Addr
}

// clients makes n clients of the lighthouse that beat.
func clients(p *python, addr string, n int) []string {
	var names []string
	for i := range n {
		name := fmt.Sprintf("client_%d", i)
		p.do("client", args{"name": name, "addr": addr})
		p.do("beats", args{"name": name, "replica_id": name})
		names = append(names, name)
	}
	return names
}

// ask lets all clients ask for a step at once.
func ask(t *testing.T, p *python, names []string, step int) []quorumAnswer {
	t.Helper()
	var calls []<-chan reply
	for i, name := range names {
		calls = append(calls, p.begin("quorum", args{
			"name": name, "replica_id": name, "address": fmt.Sprintf("http://host%d:1", i),
			"store_address": fmt.Sprintf("store%d:1", i), "step": step, "world_size": 2, "data": map[string]any{"k": i},
		}))
	}
	var all []quorumAnswer
	for _, call := range calls {
		all = append(all, must[quorumAnswer](t, call))
	}
	return all
}

// The real client: one id over all steps, everybody in it, everything that a
// member says told to all.
func TestTorchftClients(t *testing.T) {
	each(t, func(t *testing.T, p *python) {
		names := clients(p, serve(t, 3), 3)
		var id int64
		for step := range 5 {
			for _, q := range ask(t, p, names, step) {
				if !slices.Equal(q.ids(), names) {
					t.Fatalf("step %d: members %v, want %v", step, q.ids(), names)
				}
				if id != 0 && q.QuorumID != id {
					t.Fatalf("step %d: id %d, was %d and nothing changed", step, q.QuorumID, id)
				}
				id = q.QuorumID
				for i, m := range q.Participants {
					if m.Step != int64(step) || m.WorldSize != 2 || m.ShrinkOnly || m.Data["k"] != float64(i) ||
						m.Address != fmt.Sprintf("http://host%d:1", i) || m.StoreAddress != fmt.Sprintf("store%d:1", i) {
						t.Errorf("step %d: member %+v", step, m)
					}
				}
			}
		}
	})
}

// What the real client cannot have said in good faith is refused with the name
// of the value, and a deadline ends a wait.
func TestTorchftClientErrors(t *testing.T) {
	each(t, func(t *testing.T, p *python) {
		p.do("client", args{"name": "c", "addr": serve(t, 2)})
		if _, err := p.try("beat", args{"name": "c", "replica_id": ""}); err == nil || !strings.Contains(err.Error(), "replica_id") {
			t.Errorf("an empty id: %v", err)
		}
		_, err := p.try("quorum", args{"name": "c", "replica_id": "c", "timeout": 0.2})
		if err == nil || !strings.Contains(err.Error(), "Timeout") && !strings.Contains(strings.ToLower(err.Error()), "deadline") &&
			!strings.Contains(err.Error(), "expired") && !strings.Contains(err.Error(), "Cancelled") {
			t.Errorf("alone of at least two: %v, want a timeout", err)
		}
	})
}

// managers are replicas of one rank: torchft's manager and its client.
func managers(t *testing.T, p *python, lighthouse string, n, retries int) []string {
	t.Helper()
	var names []string
	for i := range n {
		name := fmt.Sprintf("replica_%d", i)
		addr := text(t, p.do("manager_server", args{
			"name": name + "/server", "replica_id": name + ":1", "lighthouse": lighthouse,
			"store": fmt.Sprintf("store%d:1", i), "retries": retries}))
		p.do("manager", args{"name": name, "addr": addr})
		names = append(names, name)
	}
	return names
}

// plans lets all managers' clients ask for their steps at once.
func plans(t *testing.T, p *python, names []string, steps []int, more args) []plan {
	t.Helper()
	var calls []<-chan reply
	for i, name := range names {
		a := args{"name": name, "group_rank": 0, "step": steps[i], "metadata": "meta of " + name, "handle": "handle of " + name}
		for k, v := range more {
			a[k] = v
		}
		calls = append(calls, p.begin("manager_quorum", a))
	}
	var all []plan
	for _, call := range calls {
		all = append(all, must[plan](t, call))
	}
	return all
}

// The real manager and its client: steps, a failed commit that makes a new
// quorum, a replica that is behind and heals.
func TestTorchftManagers(t *testing.T) {
	each(t, func(t *testing.T, p *python) {
		names := managers(t, p, serve(t, 2), 2, 0)
		var first int64
		for step := 1; step < 4; step++ {
			for i, got := range plans(t, p, names, []int{step, step}, nil) {
				if first == 0 {
					first = got.QuorumID
				}
				if got.QuorumID != first || got.Rank != i || got.WorldSize != 2 || got.MaxStep != int64(step) || got.Heal ||
					!slices.Equal(got.ReplicaIDs, []string{"replica_0:1", "replica_1:1"}) {
					t.Fatalf("step %d: %+v", step, got)
				}
				checkHandles(t, p, got, names)
			}
			for _, name := range names {
				if ok := string(p.do("should_commit", args{"name": name, "group_rank": 0, "step": step, "ok": true})); ok != "true" {
					t.Errorf("step %d of %s: %s", step, name, ok)
				}
			}
		}
		for _, got := range plans(t, p, names, []int{4, 4}, args{"failures": 1}) {
			if got.QuorumID <= first {
				t.Errorf("after a failed commit: %+v, want an id above %d", got, first)
			}
		}
		behind := plans(t, p, names, []int{9, 5}, nil)
		if got := behind[1]; !got.Heal || got.MaxStep != 9 || got.SourceRank == nil || *got.SourceRank != 0 || got.Source == "" {
			t.Errorf("who is behind: %+v", got)
		}
		if got := behind[0]; got.Heal || !slices.Equal(got.Targets, []int{1}) {
			t.Errorf("who is ahead: %+v", got)
		}
		p.do("manager", args{"name": "source", "addr": behind[1].Source})
		if got := text(t, p.do("metadata", args{"name": "source", "group_rank": 0})); got != "meta of replica_0" {
			t.Errorf("metadata of the source: %q", got)
		}
	})
}

// checkHandles: a newer torchft tells its members handles that no words of ours
// are for; they come through in the order of the members.
func checkHandles(t *testing.T, p *python, got plan, names []string) {
	t.Helper()
	var has bool
	if err := json.Unmarshal(p.do("has_handles", nil), &has); err != nil || !has {
		return
	}
	var want []string
	for _, name := range names {
		want = append(want, "handle of "+name)
	}
	if !slices.Equal(got.HandlesOfIt, want) {
		t.Errorf("handles %q, want %q", got.HandlesOfIt, want)
	}
}

// planOf waits for a call of manager_quorum.
func planOf(call <-chan reply) (plan, error) {
	out, err := wait(call)
	var got plan
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	return got, err
}

// The server is killed and comes back on its data dir: torchft's managers go on
// in the quorum that they were in, or in a later one.
func TestTorchftLighthouseKilled(t *testing.T) {
	each(t, func(t *testing.T, p *python) {
		l := run(t, freeAddr(t), "--min-replicas", "2", "--data-dir", t.TempDir())
		l.healthy()
		s := &steady{t: t, p: p, names: managers(t, p, "http://"+l.addr, 2, 5), steps: []int{1, 1}}
		for range 3 {
			s.step()
		}
		for range 2 {
			before := s.last
			l.Kill()
			l.start()
			s.step()
			s.step()
			if s.last < before {
				t.Errorf("quorum %d after %d", s.last, before)
			}
		}
	})
}
