package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

const (
	// reviewEvery is how often a leader looks whether the servers in raft are
	// the right ones. Gossip's news wake it too.
	reviewEvery = 250 * time.Millisecond

	// changeTimeout bounds how long a membership change may wait to begin.
	changeTimeout = 5 * time.Second
)

// errRetired says that this server was taken out of the cluster for good.
var errRetired = errors.New("this server was taken out of the cluster: start it with an empty data dir to join anew")

// tend keeps the servers in raft the right ones while this server leads, until
// ctx ends. The other servers' retirement is noticed here too, as is our own.
func (n *Node) tend(ctx context.Context, l *Ledger) error {
	tick := time.NewTicker(reviewEvery)
	defer tick.Stop()
	for {
		_, changed := n.book.all()
		next, err := n.review(l)
		if err != nil {
			next.Why = err.Error()
		}
		if next.Kind != changeNone {
			err = n.change(l, next)
		}
		if n.setNext(next) {
			n.logChange(next, err)
		}
		if l.state.retired(n.me().RaftID) {
			return errRetired
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick.C:
		}
	}
}

func (n *Node) logChange(next change, err error) {
	switch line := n.cfg.Log.Info().Str("server", string(next.ID)).Str(logkey.Reason, next.Why); {
	case next.Kind == changeNone:
		if next.Why != "" {
			n.cfg.Log.Debug().Str(logkey.Reason, next.Why).Msg("no membership change")
		}
	case err != nil:
		n.cfg.Log.Warn().Err(err).Str("change", string(next.Kind)).Str("server", string(next.ID)).Msg("membership change not made")
	default:
		line.Msg(map[changeKind]string{changeAdd: "server added", changePromote: "server promoted to voter",
			changeRemove: "server removed", changeAddress: "server moved"}[next.Kind])
	}
}

// review returns the change to make, none if this server does not lead.
func (n *Node) review(l *Ledger) (change, error) {
	if !l.leads() {
		n.mu.Lock()
		n.mu.leads = time.Time{}
		n.mu.Unlock()
		return change{}, nil
	}
	m, err := n.membership(l)
	if err != nil {
		return change{}, err
	}
	next := m.next()
	next.Basis = m.basis
	return next, nil
}

// membership is what this server, as the leader, knows of the servers.
func (n *Node) membership(l *Ledger) (*membership, error) {
	f := l.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, fmt.Errorf("read raft's servers: %w", err)
	}
	now := time.Now()
	n.mu.Lock()
	if n.mu.leads.IsZero() {
		n.mu.leads = now
	}
	leads, voters := n.mu.leads, n.mu.saved.Voters
	n.mu.Unlock()
	m := &membership{
		now: now, self: raft.ServerID(n.me().RaftID), voters: voters,
		stableFor: n.cfg.StableFor, replaceAfter: n.cfg.ReplaceAfter,
		lastIndex: l.raft.LastIndex(), servers: f.Configuration().Servers, basis: f.Index(),
		stay: raceDetector, seen: make(map[raft.ServerID]memberView), retired: func(id raft.ServerID) bool { return l.state.retired(string(id)) },
	}
	entries, _ := n.book.all()
	for _, e := range entries {
		id := raft.ServerID(e.RaftID)
		a := n.peers.acked(id)
		since := e.since
		if !e.alive && leads.After(since) && e.since.IsZero() {
			since = leads // nobody has seen it since we lead: its time begins now
		}
		m.seen[id] = memberView{RPC: e.RPC, Raft: e.Raft, Alive: e.alive, Since: since, NonVoter: e.NonVoter,
			Acked: a.index, AckedAt: a.at}
	}
	for _, s := range m.servers {
		if _, known := m.seen[s.ID]; !known {
			m.seen[s.ID] = memberView{Since: leads, Acked: n.peers.acked(s.ID).index, AckedAt: n.peers.acked(s.ID).at}
		}
	}
	m.seen[m.self] = memberView{RPC: n.me().RPCAddress, Raft: n.me().RaftAddress, Alive: true, Since: leads,
		NonVoter: n.me().NonVoter, Acked: m.lastIndex, AckedAt: now}
	return m, nil
}

// change makes one membership change and waits until it is committed.
func (n *Node) change(l *Ledger, next change) error {
	var f raft.IndexFuture
	switch {
	case next.Kind == changeAdd, next.Kind == changeAddress && !next.Voter:
		f = l.raft.AddNonvoter(next.ID, next.Address, next.Basis, changeTimeout)
	case next.Kind == changePromote, next.Kind == changeAddress:
		f = l.raft.AddVoter(next.ID, next.Address, next.Basis, changeTimeout)
	case next.Kind == changeRemove:
		f = l.raft.RemoveServer(next.ID, next.Basis, changeTimeout)
	default:
		return fmt.Errorf("unknown membership change %q", next.Kind)
	}
	if err := f.Error(); err != nil {
		return fmt.Errorf("%s server %s: %w", next.Kind, next.ID, leadershipError(err))
	}
	return nil
}

// setNext keeps what operators are told of the next change, and says whether it is news.
func (n *Node) setNext(next change) bool {
	text := next.Why
	if next.Kind != changeNone {
		text = fmt.Sprintf("%s %s: %s", next.Kind, next.ID, next.Why)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	news := text != n.mu.next
	n.mu.next = text
	return news
}

// find returns the server in raft that a raft id, the beginning of one, or an
// RPC address names.
func (m *membership) find(name string) (raft.Server, error) {
	var found []raft.Server
	for _, s := range m.servers {
		if string(s.ID) == name || m.seen[s.ID].RPC == name && m.seen[s.ID].Alive {
			return s, nil
		}
		if m.seen[s.ID].RPC == name || len(name) >= 4 && len(name) < len(s.ID) && string(s.ID[:len(name)]) == name {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return raft.Server{}, fmt.Errorf("%w: no server in raft is called %q", errNoServer, name)
	case 1:
		return found[0], nil
	}
	return raft.Server{}, fmt.Errorf("%w: %d servers in raft are called %q: give a raft id", errNoServer, len(found), name)
}

// errNoServer says that a request named no server that there is.
var errNoServer = errors.New("unknown server")

// errUnsafe says that a change would endanger the cluster.
var errUnsafe = errors.New("not safe now")

// remove takes a server out for good: its raft id is never used again. The
// leader does not remove itself; it hands the leadership over, and the next one
// is asked.
func (n *Node) remove(l *Ledger, name string, force bool) error {
	m, err := n.membership(l)
	if err != nil {
		return err
	}
	s, err := m.find(name)
	if err != nil {
		return err
	}
	if err := m.removable(s.ID); err != nil && (!force || len(m.voting()) == 1) {
		if m.now.Sub(m.seen[m.self].Since) < healthyWithin {
			return fmt.Errorf("%w: this leader has yet to hear from all: %w", ErrNotLeader, err) // and is asked again
		}
		return fmt.Errorf("%w: %w", errUnsafe, err)
	}
	if s.ID == m.self {
		if err := n.transfer(l, ""); err != nil {
			return err
		}
		return ErrNotLeader
	}
	if err := l.Apply(Command{Kind: commandRetire, Server: string(s.ID)}); err != nil {
		return err
	}
	if err := n.change(l, change{Kind: changeRemove, ID: s.ID, Basis: m.basis}); err != nil {
		if f := l.raft.GetConfiguration(); f.Error() == nil && f.Index() != m.basis {
			return fmt.Errorf("%w: the servers changed meanwhile: %w", ErrNotLeader, err) // and is asked again
		}
		return err
	}
	n.cfg.Log.Info().Str("server", string(s.ID)).Bool("force", force).Msg("server retired")
	return nil
}

// transfer hands the leadership to a voter, or to whichever is furthest.
func (n *Node) transfer(l *Ledger, to string) error {
	var f raft.Future
	if to == "" {
		f = l.raft.LeadershipTransfer()
	} else {
		m, err := n.membership(l)
		if err != nil {
			return err
		}
		s, err := m.find(to)
		if err != nil {
			return err
		}
		if s.ID == m.self {
			return nil
		}
		if s.Suffrage != raft.Voter || !m.healthy(s.ID) {
			return fmt.Errorf("%w: server %s is no healthy voter", errUnsafe, s.ID)
		}
		f = l.raft.LeadershipTransferToServer(s.ID, s.Address)
	}
	if err := f.Error(); err != nil {
		return fmt.Errorf("transfer the leadership: %w", err)
	}
	return nil
}

// members describes all servers for operators.
func (n *Node) members(l *Ledger) (*skerrypb.MembersResponse, error) {
	m, err := n.membership(l)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	resp := &skerrypb.MembersResponse{
		Cluster: n.mu.saved.Cluster, Term: l.raft.CurrentTerm(), LastIndex: m.lastIndex,
		VotersWanted: uint32(m.voters), Next: n.mu.next,
	}
	n.mu.Unlock()
	for _, id := range sortedKeys(m.seen) {
		v := m.seen[id]
		info := &skerrypb.MemberInfo{RaftId: string(id), RpcAddress: v.RPC, RaftAddress: v.Raft, Alive: v.Alive,
			Leader: id == m.self, LastIndex: v.Acked, NonVoter: v.NonVoter}
		if e, ok := n.book.find(string(id)); ok {
			info.Version = e.Version
		}
		if id == m.self {
			info.Version = n.me().Version
		}
		if !v.AckedAt.IsZero() {
			info.SilenceMs = uint64(max(0, m.now.Sub(v.AckedAt).Milliseconds()))
		}
		i := slices.IndexFunc(m.servers, func(s raft.Server) bool { return s.ID == id })
		if info.InRaft = i >= 0; info.InRaft {
			info.Voter = m.servers[i].Suffrage == raft.Voter
			if info.RaftAddress == "" {
				info.RaftAddress = string(m.servers[i].Address)
			}
		}
		if info.InRaft || info.Alive {
			resp.Members = append(resp.Members, info)
		}
	}
	return resp, nil
}

// handOver gives the leadership to another server before this one stops, so
// that nobody waits for an election.
func (n *Node) handOver(l *Ledger) {
	if !l.leads() {
		return
	}
	if f := l.raft.GetConfiguration(); f.Error() == nil && len(f.Configuration().Servers) < 2 {
		return
	}
	if err := l.raft.LeadershipTransfer().Error(); err != nil {
		n.cfg.Log.Debug().Err(err).Msg("leadership not handed over") // an election will do
	}
}
