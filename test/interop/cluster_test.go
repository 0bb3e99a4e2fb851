package interop

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"
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

// leads asks a server whether it leads itself: leads in its status is its own role.
func (p *process) leads(client *http.Client) bool {
	answer, err := client.Get("http://" + p.addr + "/status.json")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	var status struct{ Leads bool }
	return json.NewDecoder(answer.Body).Decode(&status) == nil && status.Leads
}

// leader waits until one of the servers leads.
func leader(t *testing.T, all []*process) *process {
	t.Helper()
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for began := time.Now(); time.Since(began) < settleLimit; time.Sleep(20 * time.Millisecond) {
		for _, p := range all {
			if p.leads(client) {
				return p
			}
		}
	}
	t.Fatal("no server leads")
	return nil
}

// Three servers and a forwarding one beside the job, which is all that torchft's
// managers know: the leader is killed, and killed again, and they go on, in the
// same quorum or a later one.
func TestTorchftThroughLeaderKills(t *testing.T) {
	each(t, func(t *testing.T, p *python) {
		founders := make([]*process, 3)
		for i := range founders {
			flags := []string{"--min-replicas", "2", "--data-dir", t.TempDir(), "--bootstrap-expect", "3"}
			if i > 0 {
				flags = append(flags, "--join", founders[0].addr)
			}
			founders[i] = run(t, neighbours(t), flags...)
		}
		leader(t, founders)
		beside := run(t, neighbours(t), "--min-replicas", "2", "--data-dir", t.TempDir(), "--non-voter",
			"--join", fmt.Sprintf("%s,%s,%s", founders[0].addr, founders[1].addr, founders[2].addr))
		beside.healthy()
		s := &steady{t: t, p: p, names: managers(t, p, "http://"+beside.addr, 2, 0), steps: []int{1, 1}}
		s.step()
		for range 3 {
			before := s.last
			l := leader(t, founders)
			l.kill()
			s.step()
			if next := leader(t, founders); next == l {
				t.Fatalf("%s leads though it was killed", l.addr)
			}
			s.step()
			if s.last < before {
				t.Errorf("quorum %d after %d", s.last, before)
			}
			l.start()
			l.healthy()
		}
		if s.tried > 0 {
			t.Errorf("%d steps were tried in vain: the server beside the job must hold calls over a change of leader", s.tried)
		}
		t.Logf("%d steps, the last one in quorum %d", s.steps[0], s.last)
	})
}
