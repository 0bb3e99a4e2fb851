package history

import (
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

var (
	length = flag.Duration("history.time", 6*time.Second, "how long TestHistory lets things go wrong")
	seed   = flag.Uint64("history.seed", 1, "what TestHistory draws its faults from")
)

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise: they wait
// for elections.
const testsAtOnce = 4

func TestMain(m *testing.M) {
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m)
}

const minReplicas = 2

// servers are lighthouse servers whose rafts talk through links that can be cut.
// Their methods are safe for concurrent use.
type servers struct {
	t      *testing.T
	voters []raft.Server
	change func(i int, c *lighthouse.Config)
	dirs   []string

	mu    sync.Mutex
	links []*raft.InmemTransport
	all   []*lighthousetest.Server
	cut   map[int]bool
	down  map[int]bool
}

func startServers(t *testing.T, n int, change func(i int, c *lighthouse.Config)) *servers {
	t.Helper()
	s := &servers{t: t, change: change, cut: map[int]bool{}, down: map[int]bool{}}
	for i := range n {
		id := fmt.Sprintf("s%d", i)
		s.voters = append(s.voters, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
		s.dirs = append(s.dirs, t.TempDir())
		s.links = append(s.links, nil)
		s.all = append(s.all, nil)
	}
	for i := range n {
		s.start(i)
	}
	return s
}

// start starts a server, with its data and its address if it ran before.
func (s *servers) start(i int) {
	_, link := raft.NewInmemTransport(s.voters[i].Address)
	s.mu.Lock()
	s.links[i] = link
	old := s.all[i]
	s.connectLocked()
	s.mu.Unlock()
	server := lighthousetest.Start(s.t, func(c *lighthouse.Config) {
		c.DataDir = s.dirs[i]
		c.Rules.MinReplicas, c.Rules.JoinTimeout = minReplicas, 2*time.Second
		// A busy machine must not look like a death: the model knows of kills alone.
		c.Rules.HeartbeatTimeout, c.Rules.SuspectAfter, c.Rules.Grace = 20*time.Second, 10*time.Second, 10*time.Second
		c.Raft = cluster.RaftOptions{Transport: link, Servers: s.voters, LocalID: s.voters[i].ID}
		if s.change != nil {
			s.change(i, c)
		}
		if old != nil {
			c.Listen = old.Addr
		}
	})
	s.mu.Lock()
	s.all[i], s.down[i] = server, false
	s.mu.Unlock()
}

// connectLocked lets those talk that are not cut off.
func (s *servers) connectLocked() {
	for i, a := range s.links {
		for j, b := range s.links {
			switch {
			case i == j || a == nil || b == nil:
			case s.cut[i] || s.cut[j]:
				a.Disconnect(s.voters[j].Address)
			default:
				a.Connect(s.voters[j].Address, b)
			}
		}
	}
}

// partition cuts a server off from the others, not from replicas; heal ends it.
func (s *servers) partition(i int, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut[i] = cut
	s.connectLocked()
}

// kill ends a server; its raft log stays.
func (s *servers) kill(i int) {
	s.mu.Lock()
	server := s.all[i]
	s.down[i] = true
	s.mu.Unlock()
	if err := server.Stop(); err != nil {
		s.t.Errorf("stop server %d: %v", i, err)
	}
}

func (s *servers) addr(i int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[i%len(s.all)].Addr
}

// leader is the index of a server that leads, as it believes; -1: none.
func (s *servers) leader() int { return s.leads(0, 1, 2) }

// leads is the first of the servers that believes it leads; -1: none.
func (s *servers) leads(which ...int) int {
	for _, i := range which {
		s.mu.Lock()
		server, down := s.all[i], s.down[i]
		s.mu.Unlock()
		if server == nil || down {
			continue
		}
		if st, err := server.Lighthouse.Status(s.t.Context()); err == nil && st.Leads {
			return i
		}
	}
	return -1
}

// waitLeader waits for a leader that is not except.
func (s *servers) waitLeader(except int) int {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if l := s.leader(); l >= 0 && l != except {
			return l
		}
		<-time.After(5 * time.Millisecond)
	}
	s.t.Fatal("no leader within 20s")
	return -1
}
