package chaos

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/plan"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/watch"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/procs"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
)

// site is where the job's processes are, at one moment.
type site struct {
	table   *procs.Table
	servers []netip.AddrPort // of the lighthouse
	replica map[string]place // by id; those that train
	leader  place            // the leading server
	led     string           // its address, as the cluster has it
	members cluster.Membership
	killed  map[string]place // servers that this run has killed, by such an address
}

// place is where a process listens, and which it is: 0, not on this host.
type place struct {
	at  netip.AddrPort
	pid int
}

// survey looks where everything is. Of the lighthouse's members it only asks if members
// is set.
func (c *config) survey(ctx context.Context, o api.Overview, job api.Job, members bool) (*site, error) {
	table, err := procs.Read()
	if err != nil {
		return nil, err
	}
	s := &site{table: table, replica: make(map[string]place)}
	for _, addr := range append(slices.Clone(o.Servers), o.Addr, o.Leader) {
		s.servers = append(s.servers, addrsOf(ctx, addr)...)
	}
	for _, r := range job.Replicas {
		if trains(r) {
			s.replica[r.ReplicaID] = s.find(ctx, r.Address)
		}
	}
	s.dropShared()
	if !members {
		return s, nil
	}
	err = c.Cluster(ctx, func(ctx context.Context, client *cluster.Client) (err error) {
		s.members, err = client.Members(ctx)
		return err
	})
	for _, m := range s.members.Members {
		if m.Leader {
			s.leader, s.led = s.server(ctx, m), m.Addr
		}
	}
	return s, err
}

// addrsOf are the addresses of a URL or host:port; none if it cannot be told.
func addrsOf(ctx context.Context, address string) (all []netip.AddrPort) {
	host, text, err := net.SplitHostPort(netaddr.HostPort(address))
	if err != nil {
		return nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil
	}
	found, err := netaddr.Lookup(ctx, host)
	if err != nil {
		return nil // what is not found is not hit
	}
	for _, a := range found {
		all = append(all, netip.AddrPortFrom(a, uint16(port)))
	}
	return all
}

// find finds the process of a replica's manager: it listens there, and speaks to the
// lighthouse.
func (s *site) find(ctx context.Context, address string) place {
	for _, at := range addrsOf(ctx, address) {
		if pid := s.listener(at); pid != 0 && s.table.ConnectedTo(pid, s.servers) {
			return place{at, pid}
		}
	}
	return place{}
}

// listener is the process that listens at an address, if a fault can hit it.
func (s *site) listener(at netip.AddrPort) int {
	if pid := s.table.Listener(at); mayHit(pid) {
		return pid
	}
	return 0
}

// mayHit tells whether a process may get a signal: not this one, nor process 1, to which SIGKILL and
// SIGSTOP from its own container are nothing, though the kernel says that they were sent.
func mayHit(pid int) bool { return pid > 1 && pid != os.Getpid() }

// dropShared leaves out the places of replicas that live in one process: a fault would hit
// them all.
func (s *site) dropShared() {
	count := make(map[int]int)
	for _, p := range s.replica {
		count[p.pid]++
	}
	for id, p := range s.replica {
		if count[p.pid] > 1 {
			s.replica[id] = place{}
		}
	}
}

// isDead tells whether this run has killed a server, and no other process has come in its
// place: the cluster takes a while to see that.
func (s *site) isDead(m cluster.Member) bool {
	was, killed := s.killed[m.Addr]
	if !killed {
		return false
	}
	now := s.table.Listener(was.at)
	return now == 0 || now == was.pid
}

// server finds the process of a lighthouse's server: it listens at both its addresses.
func (s *site) server(ctx context.Context, m cluster.Member) place {
	for _, at := range addrsOf(ctx, m.Addr) {
		pid := s.listener(at)
		for _, raft := range addrsOf(ctx, m.RaftAddr) {
			if pid != 0 && s.table.Listener(raft) == pid {
				return place{at, pid}
			}
		}
	}
	return place{}
}

// trains tells whether a replica is a member whose gradients count, and is there.
func trains(r api.Replica) bool { return r.Member && r.Participant && r.State == "live" }

// world is what a plan needs to know. Busy are the replicas with which a fault is under way.
func (c *config) world(s *site, job api.Job, busy []string) plan.World {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	w := plan.World{
		MinReplicas: job.MinReplicas, SuspectAfter: ms(job.SuspectAfterMs), LostAfter: ms(job.HeartbeatTimeoutMs + job.GraceMs),
		Disk: c.diskPath != "",
	}
	ranks := slices.Contains(c.faults, string(plan.Rank))
	for _, r := range job.Replicas {
		if watch.Gone(r.State) {
			continue
		}
		at := s.replica[r.ReplicaID]
		one := plan.Replica{
			ID: r.ReplicaID, Trains: trains(r), Busy: slices.Contains(busy, r.ReplicaID), Local: at.pid != 0, Killable: at.pid != 0 || r.Address != "",
		}
		if ranks && at.pid != 0 {
			for rank := range s.table.Ranks(at.pid, at.at) {
				one.Ranks = append(one.Ranks, rank)
			}
			slices.Sort(one.Ranks)
		}
		w.Replicas = append(w.Replicas, one)
	}
	w.Transfer, w.KillLeader = s.leaders()
	return w
}

// leaders says whether the leadership can go elsewhere, and whether the leading server can be
// killed.
func (s *site) leaders() (transfer, kill bool) {
	voters, alive := 0, 0
	for _, m := range s.members.Members {
		if !m.Voter {
			continue
		}
		voters++
		if m.Alive && !s.isDead(m) {
			alive++
		}
	}
	return alive > 1, s.leader.pid != 0 && alive-1 > voters/2
}

// look asks for the job. A job that is not there is an error.
func (c *config) look(ctx context.Context) (o api.Overview, job api.Job, err error) {
	o, err = c.OverviewOf(ctx, c.job)
	if err != nil {
		return o, job, err
	}
	if connect.Leaderless(o.Leads, o.Leader) {
		return o, job, connect.ErrNoLeader
	}
	i := slices.IndexFunc(o.Jobs, func(j api.Job) bool { return j.Job == c.job })
	if i < 0 {
		return o, job, fmt.Errorf("no job is called %q", c.job)
	}
	return o, o.Jobs[i], nil
}
