package interop

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// neighbours are a loopback address, and that the two ports after it are free
// too: a server of several has raft and gossip there.
func neighbours(t *testing.T) string {
	t.Helper()
	for range 100 {
		host, port, err := net.SplitHostPort(freeAddr(t))
		if err != nil {
			t.Fatal(err)
		}
		first, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		free := true
		for n := 1; n < 3; n++ {
			l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(first+n)))
			if free = free && err == nil; err == nil {
				l.Close()
			}
		}
		if free {
			return net.JoinHostPort(host, port)
		}
	}
	t.Fatal("no three free ports in a row")
	return ""
}

// view is what the tests read of a server's status.
type view struct {
	Leads bool // the server that was asked does
	Jobs  []struct {
		Job      string
		Replicas []struct {
			ReplicaID string `json:"replica_id"`
			WaitingMs int64  `json:"waiting_ms"`
			SilenceMs int64  `json:"silence_ms"`
			State     string
		}
	}
	Refused []struct {
		ReplicaID string `json:"replica_id"`
		Reason    string
	}
}

// view asks a server for its status; what it does not say is zero.
func (p *process) view(client *http.Client) (v view) {
	answer, err := client.Get("http://" + p.addr + "/status.json")
	if err != nil {
		return view{}
	}
	defer answer.Body.Close()
	if json.NewDecoder(answer.Body).Decode(&v) != nil {
		return view{}
	}
	return v
}

// waits waits until the join of a replica waits at the leader.
func (p *process) waits(t *testing.T, id string) {
	t.Helper()
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	testkit.EventuallyNil(t, id+" has joined", func() error {
		seen := p.view(client)
		for _, j := range seen.Jobs {
			for _, r := range j.Replicas {
				if r.ReplicaID == id && r.WaitingMs > 0 {
					return nil
				}
			}
		}
		return fmt.Errorf("%s says %+v", p.addr, seen)
	})
}

// hears waits until a beat of each replica has come that was sent after the call.
func (p *process) hears(t *testing.T, ids ...string) {
	t.Helper()
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	from := time.Now()
	testkit.EventuallyNil(t, fmt.Sprintf("beats of %q", ids), func() error {
		asked := time.Now()
		seen := p.view(client)
		heard := 0
		for _, j := range seen.Jobs {
			for _, r := range j.Replicas {
				silence := time.Duration(r.SilenceMs+1) * time.Millisecond // which is cut off to whole ones
				if slices.Contains(ids, r.ReplicaID) && asked.Add(-silence).After(from) {
					heard++
				}
			}
		}
		if heard < len(ids) {
			return fmt.Errorf("%s says %+v", p.addr, seen)
		}
		return nil
	})
}

// leader waits until one of the servers leads.
func leader(t *testing.T, all []*process) (leads *process) {
	t.Helper()
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	testkit.EventuallyNil(t, "a server leads", func() error {
		for _, leads = range all {
			if leads.view(client).Leads {
				return nil
			}
		}
		return fmt.Errorf("none of %s does", addresses(all))
	})
	return leads
}

// founders starts three servers that found a cluster.
func founders(t *testing.T, addr func() string) []*process {
	t.Helper()
	all := make([]*process, 3)
	for i := range all {
		flags := []string{"--min-replicas", "2", "--data-dir", t.TempDir(), "--bootstrap-expect", "3"}
		if i > 0 {
			flags = append(flags, "--join", all[0].addr)
		}
		all[i] = run(t, addr(), flags...)
	}
	leader(t, all)
	return all
}

// addresses is what --join and --lighthouse take.
func addresses(all []*process) string {
	var addrs []string
	for _, p := range all {
		addrs = append(addrs, p.addr)
	}
	return strings.Join(addrs, ",")
}

// Three servers, and two jobs with torchft's default of no retries. The one knows a
// server that forwards and never votes; of the other, a replica has torchft's own
// manager behind a proxy, and a replica has ours, by the shim, with all addresses.
// The leader is killed while a call of each waits, and its successor, and its: no
// step is tried in vain.
func TestTorchftThroughLeaderKills(t *testing.T) {
	each(t, func(t *testing.T, p *python) {
		servers := founders(t, func() string { return neighbours(t) })
		beside := run(t, neighbours(t), "--min-replicas", "2", "--data-dir", t.TempDir(), "--non-voter", "--join", addresses(servers))
		beside.healthy()
		addr := freeAddr(t)
		launch(&process{t: t, addr: addr, flags: []string{"skerry", "torchft-proxy", "--bind", addr, "--job", "proxied", "--lighthouse", addresses(servers)}})

		first := &steady{t: t, p: p, names: managers(t, p, "http://"+beside.addr, 2, 0), steps: []int{1, 1}}
		first.step()
		second := &steady{t: t, p: p, names: []string{"proxied_0", "proxied_1"}, steps: []int{1, 1}}
		p.do("manager", args{"name": "proxied_0", "addr": text(t, p.do("manager_server", args{
			"name": "proxied_0/server", "replica_id": "proxied/replica_0:1", "lighthouse": "http://" + addr, "store": "store2:1"}))})
		p.do("manager", args{"name": "proxied_1", "addr": text(t, p.do("shim_server", args{
			"name": "proxied_1/server", "replica_id": "proxied/replica_1:1", "lighthouse": addresses(servers), "store": "store3:1",
			"program": builds.Path(t, "cmd/skerry")}))})
		second.step()

		for range 3 {
			l := leader(t, servers)
			var other sync.WaitGroup
			first.between = func() {
				beside.waits(t, "replica_0:1")
				held := make(chan struct{})
				second.between = func() {
					beside.waits(t, "proxied/replica_0:1")
					l.Kill()
					close(held)
				}
				other.Go(second.step)
				select {
				case <-held:
				case <-time.After(2 * settleLimit):
					t.Error("the second job does not come to a kill")
				}
			}
			first.step()
			other.Wait()
			if next := leader(t, servers); next == l {
				t.Fatalf("%s leads though it was killed", l.addr)
			}
			first.step()
			second.step()
			l.start()
			l.healthy()
		}
		if tried := first.tried + second.tried; tried > 0 {
			t.Errorf("%d steps were tried in vain: calls must be held over a change of leader", tried)
		}
		t.Logf("%d and %d steps, the last ones in quorums %d and %d", first.steps[0], second.steps[0], first.last, second.last)
	})
}
