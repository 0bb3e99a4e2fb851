package interop

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/manager/torchft"
)

// ourManager runs our manager for one replica of torchft's ranks.
func ourManager(t *testing.T, id, lighthouse, store string, size int, onKill func(string)) *torchft.Server {
	t.Helper()
	s, err := torchft.New(torchft.Config{
		ReplicaID: id, Lighthouse: []string{lighthouse}, StoreAddress: store, GroupWorldSize: size, OnKill: onKill})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("our manager: %v", err)
		}
	})
	return s
}

// Our manager serves torchft's real ManagerClient, and a job in which the other
// replica has torchft's own manager comes to one plan: who is where, who heals
// from whom, whose handle is whose.
func TestOurManagerBesideTorchfts(t *testing.T) {
	each(t, func(t *testing.T, p *python) {
		addr := serve(t, 2)
		ours := ourManager(t, "replica_0:1", addr, "store0:1", 1, nil)
		p.do("manager", args{"name": "replica_0", "addr": ours.Address()})
		theirs := text(t, p.do("manager_server", args{
			"name": "server", "replica_id": "replica_1:1", "lighthouse": addr, "store": "store1:1"}))
		p.do("manager", args{"name": "replica_1", "addr": theirs})
		names := []string{"replica_0", "replica_1"}

		for step, wantHeal := range []bool{true, false, false} {
			for i, got := range plans(t, p, names, []int{step, step}, nil) {
				if got.Rank != i || got.WorldSize != 2 || got.MaxStep != int64(step) || got.MaxWorld != 2 ||
					got.Store != "store0:1" || got.Heal != (wantHeal && i == 1) ||
					!slices.Equal(got.ReplicaIDs, []string{"replica_0:1", "replica_1:1"}) {
					t.Errorf("step %d: %+v", step, got)
				}
				checkHandles(t, p, got, names)
			}
			for _, name := range names {
				if ok := string(p.do("should_commit", args{"name": name, "group_rank": 0, "step": step, "ok": true})); ok != "true" {
					t.Errorf("step %d of %s: %s", step, name, ok)
				}
			}
		}
		behind := plans(t, p, names, []int{9, 5}, nil)
		if behind[0].Heal || !slices.Equal(behind[0].Targets, []int{1}) || !behind[1].Heal || behind[1].Source != ours.Address() {
			t.Errorf("ours ahead: %+v", behind)
		}
		p.do("manager", args{"name": "source", "addr": behind[1].Source})
		if got := text(t, p.do("metadata", args{"name": "source", "group_rank": 0})); got != "meta of replica_0" {
			t.Errorf("metadata of our manager: %q", got)
		}
		behind = plans(t, p, names, []int{9, 10}, nil)
		if !behind[0].Heal || behind[0].Source != theirs || !slices.Equal(behind[1].Targets, []int{0}) {
			t.Errorf("ours behind: %+v", behind)
		}
	})
}

// Two ranks of one replica: a vote of no is everybody's answer.
func TestOurManagerCountsVotes(t *testing.T) {
	each(t, func(t *testing.T, p *python) {
		ours := ourManager(t, "replica:1", serve(t, 1), "store:1", 2, nil)
		for _, votes := range [][2]bool{{true, true}, {true, false}, {true, true}} {
			var asked, voted []<-chan reply
			for rank := range 2 {
				name := fmt.Sprint("rank", rank)
				p.do("manager", args{"name": name, "addr": ours.Address()})
				asked = append(asked, p.begin("manager_quorum", args{"name": name, "group_rank": rank, "step": 3}))
			}
			for _, call := range asked {
				must[plan](t, call)
			}
			for rank := range 2 {
				voted = append(voted, p.begin("should_commit", args{"name": fmt.Sprint("rank", rank), "group_rank": rank, "step": 3, "ok": votes[rank]}))
			}
			for rank, call := range voted {
				if got := must[bool](t, call); got != (votes[0] && votes[1]) {
					t.Errorf("votes %v: rank %d was told %v", votes, rank, got)
				}
			}
		}
	})
}

// Our manager joins at torchft's own lighthouse, whose kill button reaches it.
func TestOurManagerAtTorchftsLighthouse(t *testing.T) {
	each(t, func(t *testing.T, p *python) {
		// It says the host's name; on loopback our manager needs not be open.
		named, err := url.Parse(text(t, p.do("lighthouse_server", args{"name": "lighthouse", "min_replicas": 1})))
		if err != nil {
			t.Fatal(err)
		}
		addr := "http://127.0.0.1:" + named.Port()
		killed := make(chan string, 1)
		ours := ourManager(t, "replica:1", addr, "store:1", 1, func(reason string) { killed <- reason })
		p.do("manager", args{"name": "rank", "addr": ours.Address()})
		got := must[plan](t, p.begin("manager_quorum", args{"name": "rank", "group_rank": 0, "step": 1}))
		if got.WorldSize != 1 || got.Rank != 0 || got.MaxStep != 1 {
			t.Errorf("plan %+v", got)
		}
		client := http.Client{Timeout: callLimit}
		defer client.CloseIdleConnections()
		button := strings.TrimSuffix(addr, "/") + "/replica/" + url.PathEscape("replica:1") + "/kill"
		answer, err := client.Post(button, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		select {
		case reason := <-killed:
			t.Logf("killed: %s", reason)
		case <-time.After(callLimit):
			t.Errorf("kill button %s: %s, and our manager heard nothing", button, answer.Status)
		}
		p.do("shutdown", args{"name": "lighthouse"})
	})
}
