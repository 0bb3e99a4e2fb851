package worlds

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// servers are three lighthouse servers with raft, gossip and disks, in the place of the one that
// other worlds have.
type servers struct {
	w     *world
	all   *lighthousetest.Cluster
	hosts []*nettest.Host
}

// inWorldOfServers is inWorld where three servers are the lighthouse.
func inWorldOfServers(t *testing.T, o options, script func(w *world, s *servers)) {
	t.Helper()
	synctest.Test(t, func(bubble *testing.T) {
		w := newWorld(bubble, t, o)
		s := &servers{w: w}
		s.all = lighthousetest.StartCluster(bubble, 3, lighthousetest.Options{
			Timing: "default",
			Network: func(i int) lighthouse.Network {
				s.hosts = append(s.hosts, w.net.Host(fmt.Sprintf("lighthouse-%d", i)))
				return s.hosts[i]
			},
			Change: func(i int, cfg *lighthouse.Config) {
				cfg.Rules, cfg.BeatInterval = o.rules, o.beat
				cfg.Log = w.log.With().Str("name", s.hosts[i].Name).Logger()
			},
		})
		w.lighthouse = s.all.Addresses()
		defer w.end()
		script(w, s)
	})
}

// kill ends a server as others see the death of its process: its connections break, and it says
// nothing more. Its disk is left in order: test/failover kills processes.
func (s *servers) kill(i int) {
	s.silence(i)
	s.all.Stop(i)
}

// silence is the first moment of kill.
func (s *servers) silence(i int) {
	s.w.book.fault(s.hosts[i].Name, "killed")
	s.hosts[i].Kill()
}

// start starts a server again, with what is on its disk.
func (s *servers) start(i int) {
	s.w.book.note(s.hosts[i].Name, "up again")
	s.hosts[i] = s.w.net.Host(s.hosts[i].Name)
	s.all.Configure(i, func(cfg *lighthouse.Config) { cfg.Network = s.hosts[i] })
	s.all.Restart(i)
}

// cutOff holds, or lets go, all between a server and the other ones; replicas reach all of them.
func (s *servers) cutOff(i int, cut bool) {
	s.w.book.fault(s.hosts[i].Name, "cut off from the other servers: %t", cut)
	for k, other := range s.hosts {
		if k != i {
			s.w.net.HoldBoth(s.hosts[i].Name, other.Name, cut)
		}
	}
}

// leads says whether a server does, as far as it knows.
func (s *servers) leads(i int) bool {
	st, err := s.all.Servers[i].Lighthouse.Status(s.w.t.Context())
	return err == nil && st.Leads
}

// A leader that dies holds up nobody; a replica that dies then, and comes back, is the next
// leader's affair.
func TestWorldLeaderDies(t *testing.T) {
	t.Parallel()
	inWorldOfServers(t, usual(), func(w *world, s *servers) {
		all := w.replicas(3, quick())
		w.reach(20, 10*time.Second, all...)
		w.book.watch()
		dead := s.all.Leader()
		s.kill(dead)
		time.Sleep(5 * time.Second)
		holdsUpNobody(w)
		all[2].kill()
		w.reach(all[0].ranks[0].atStep()+200, 10*time.Second, all[:2]...)
		s.start(dead)
		all[2].start()
		w.reach(all[0].ranks[0].atStep()+100, 20*time.Second, all...)
	})
}

// The leader and a replica die at one instant: who is left forms a quorum with the next leader.
func TestWorldAReplicaDiesWithTheLeader(t *testing.T) {
	t.Parallel()
	inWorldOfServers(t, usual(), func(w *world, s *servers) {
		all := w.replicas(3, quick())
		w.reach(20, 10*time.Second, all...)
		leader := s.all.Leader()
		s.silence(leader)
		all[2].kill()
		at := all[0].ranks[0].atStep()
		s.all.Stop(leader)
		w.reach(at+200, 15*time.Second, all[:2]...)
	})
}

// A leader that the other servers do not reach, and all replicas do: it forms no quorum, they
// find the one that does, and it follows when it is back.
func TestWorldLeaderIsCutOff(t *testing.T) {
	t.Parallel()
	inWorldOfServers(t, usual(), func(w *world, s *servers) {
		all := w.replicas(3, quick())
		w.reach(20, 10*time.Second, all...)
		old := s.all.Leader()
		s.cutOff(old, true)
		all[2].kill()
		w.reach(all[0].ranks[0].atStep()+200, 20*time.Second, all[:2]...)
		w.within(5*time.Second, "one of the others leads", func() bool { return s.leads((old+1)%3) || s.leads((old+2)%3) })
		all[2].start()
		w.reach(all[0].ranks[0].atStep()+100, 20*time.Second, all...)
		s.cutOff(old, false)
		time.Sleep(5 * time.Second)
		if s.leads(old) {
			t.Error("the old leader leads again, with an older ledger than the others'")
		}
		all[1].kill()
		w.reach(all[0].ranks[0].atStep()+200, 20*time.Second, all[0], all[2])
	})
}

// A replica that does not reach the leader, and reaches the other servers, takes part by way of
// them, for as long as that lasts.
func TestWorldAReplicaDoesNotReachTheLeader(t *testing.T) {
	t.Parallel()
	inWorldOfServers(t, usual(), func(w *world, s *servers) {
		all := w.replicas(3, quick())
		w.reach(20, 10*time.Second, all...)
		w.book.fault("a", "out of the leader's reach")
		w.net.HoldBoth(all[0].ranks[0].host.Name, s.hosts[s.all.Leader()].Name, true)
		time.Sleep(time.Second)
		all[2].kill()
		w.reach(all[1].ranks[0].atStep()+200, 20*time.Second, all[:2]...)
		all[2].start()
		w.reach(all[1].ranks[0].atStep()+200, 20*time.Second, all...)
	})
}

// A replica comes while the leader dies: the next one takes it in, at whichever moment that was.
func TestWorldALeaderDiesUnderANewcomer(t *testing.T) {
	t.Parallel()
	for _, later := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond} {
		t.Run(later.String(), func(t *testing.T) {
			t.Parallel()
			inWorldOfServers(t, usual(), func(w *world, s *servers) {
				all := w.replicas(2, quick())
				w.reach(20, 10*time.Second, all...)
				leader := s.all.Leader()
				c := w.replica("c", 2, 1, quick()).start()
				time.Sleep(later)
				s.kill(leader)
				w.reach(all[0].ranks[0].atStep()+100, 20*time.Second, all[0], all[1], c)
			})
		})
	}
}

// Each server is stopped and started again, as an upgrade does, while replicas train: no quorum
// falls and no step is discarded.
func TestWorldServersAreUpgraded(t *testing.T) {
	t.Parallel()
	inWorldOfServers(t, usual(), func(w *world, s *servers) {
		all := w.replicas(3, quick())
		w.reach(20, 10*time.Second, all...)
		quorum := all[0].ranks[0].m.QuorumID()
		w.book.watch()
		for i := range 3 {
			s.all.Stop(i)
			time.Sleep(time.Second)
			s.start(i)
			s.all.Leader()
			time.Sleep(3 * time.Second)
		}
		holdsUpNobody(w)
		for _, r := range all {
			if st := r.ranks[0].m.Stats(); st.Discards > 0 || r.ranks[0].m.QuorumID() != quorum {
				t.Errorf("%s: quorum %d, then %d, and %d steps discarded: want one quorum and none",
					r.name, quorum, r.ranks[0].m.QuorumID(), st.Discards)
			}
		}
		all[2].kill()
		w.reach(all[0].ranks[0].atStep()+200, 10*time.Second, all[:2]...)
	})
}
