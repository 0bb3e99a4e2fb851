package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/cluster/internal/datadir"
)

// How a cluster is founded, so that two never are:
//
//	new ──propose or agree──▶ pledged ──all have pledged──▶ founded
//	 ▲                          │
//	 └── its proposer abandoned it, durably, before anybody could found it
//
// The server with the smallest raft id among those that expect each other draws
// a cluster id and names the founders. Each founder pledges to one cluster at a
// time, and writes that down before it says so. Only the proposer founds, when
// it has heard the pledge of every founder from itself; it writes that down
// too. A pledge ends in two ways: the cluster is founded, or its proposer says
// that it never will be, and so can never found it. Two clusters would need one
// server's pledge for both, as long as fewer than twice as many raft ids as are
// expected are started before the cluster is founded. A server killed anywhere in between goes on where
// it was; one that lost its data has a new raft id, and the proposer proposes
// again without the old one. If it was the proposer that lost them, the others
// write down that their proposer is lost, and are no longer told by it; once all of
// them are, none has founded and none can, and they are free.
//
// What a server hears is a state, not a message: it may be old, come twice, or
// out of order. All rules hold for old words too: pledges to a cluster that was
// abandoned name an id that is never used again.

// freshFor is how long a server counts as there after it was heard.
const freshFor = 3 * time.Second

// lastHeard is what a server last said of itself.
type lastHeard struct {
	server wire.Server
	at     time.Time
}

// bootstrap decides how a server stands next. It is a function of its fields.
type bootstrap struct {
	now    time.Time
	self   wire.Server           // datadir.ClusterRecord and Expect apart
	stands datadir.ClusterRecord // so far
	expect int                   // as many founders
	words  map[string]lastHeard  // by raft id, without self
	join   []string              // RPC addresses that were named to us
	draw   func() string         // a new cluster id
}

// next returns how the server stands now, and, unless it is founded, what it
// waits for. An error is what waiting cannot mend.
func (b *bootstrap) next() (datadir.ClusterRecord, string, error) {
	if b.stands.Standing == wire.StandingFounded {
		return b.stands, "", nil
	}
	b.stands = b.abandonFor(b.stands)
	founded, err := b.founded()
	if err != nil {
		return b.stands, "", err
	}
	switch {
	case founded != nil && (b.stands.Standing == wire.StandingNew || founded.Cluster == b.stands.Cluster):
		c := b.stands
		c.Standing, c.Cluster, c.Proposer = wire.StandingFounded, founded.Cluster, founded.Proposer
		c.Founders, c.ProposerLost = founded.Founders, false
		c.Voters = cmp.Or(c.Voters, founded.Voters)
		return c, "", nil
	case b.stands.Standing == wire.StandingNew && b.expect == 0:
		return b.stands, "a cluster that works", nil
	case b.stands.Standing == wire.StandingNew:
		return b.pledge()
	case b.stands.Proposer == b.self.RaftID:
		return b.propose(founded != nil)
	}
	return b.keep()
}

// founded returns a server that belongs to a cluster that exists, if one was
// heard.
func (b *bootstrap) founded() (*wire.Server, error) {
	var found *wire.Server
	for _, id := range sortedKeys(b.words) {
		s := b.words[id].server
		if s.Standing != wire.StandingFounded || !b.counts(s) {
			continue
		}
		if found != nil && found.Cluster != s.Cluster {
			return nil, fmt.Errorf("two clusters answer: %s at %s and %s at %s; name servers of one",
				found.Cluster, found.RPCAddress, s.Cluster, s.RPCAddress)
		}
		found = &s
	}
	return found, nil
}

// counts says whether the word of a server that belongs to a cluster counts for
// us. A cluster that has had a leader exists, whoever says so. Before that, only
// a founder goes by it; and one whose proposer is lost, only by the other founders'
// word.
func (b *bootstrap) counts(s wire.Server) bool {
	switch {
	case slices.Contains(b.stands.Abandoned, s.Cluster):
		return false
	case s.Working:
		return true
	case b.stands.Standing != wire.StandingPledged || b.stands.Cluster != s.Cluster:
		return false
	}
	return !b.stands.ProposerLost || s.RaftID != b.stands.Proposer && isFounder(b.stands.Founders, s.RaftID)
}

// pledge is the step of a server that has pledged to nothing.
func (b *bootstrap) pledge() (datadir.ClusterRecord, string, error) {
	all, err := b.candidates()
	if err != nil {
		return b.stands, "", err
	}
	if len(all) < b.expect {
		return b.stands, b.missing(all), nil
	}
	first := all[0]
	if first.RaftID == b.self.RaftID {
		c := b.stands
		c.Standing, c.Cluster, c.Proposer = wire.StandingPledged, b.draw(), b.self.RaftID
		c.Founders, c.Voters = nil, max(c.Voters, b.expect)
		for _, s := range all[:b.expect] {
			c.Founders = append(c.Founders, wire.Founder{
				RaftID: s.RaftID, RaftAddress: s.RaftAddress, RPCAddress: s.RPCAddress})
		}
		return b.proposed(c)
	}
	if first.Standing == wire.StandingPledged && first.Proposer == first.RaftID &&
		len(first.Founders) == b.expect && isFounder(first.Founders, b.self.RaftID) &&
		!slices.Contains(b.stands.Abandoned, first.Cluster) {
		c := b.stands
		c.Standing, c.Cluster, c.Proposer, c.Boot = wire.StandingPledged, first.Cluster, first.RaftID, first.Boot
		c.Founders, c.Voters = first.Founders, max(c.Voters, b.expect)
		return c, b.waitsFor(c), nil
	}
	return b.stands, fmt.Sprintf("the proposal of %s at %s", first.RaftID, first.RPCAddress), nil
}

// propose is the step of a server that has proposed a cluster. It is late if
// another exists already.
func (b *bootstrap) propose(late bool) (datadir.ClusterRecord, string, error) {
	c, why, _ := b.proposed(b.stands)
	if c.Standing == wire.StandingFounded {
		return c, "", nil
	}
	all, err := b.candidates()
	if err != nil {
		return b.stands, "", err
	}
	overtaken := all[0].RaftID < b.self.RaftID
	founderGone := len(all) >= b.expect && slices.ContainsFunc(b.stands.Founders, func(f wire.Founder) bool {
		return !slices.ContainsFunc(all, func(s wire.Server) bool { return s.RaftID == f.RaftID })
	})
	if late || overtaken || founderGone {
		return abandon(c), "the next proposal", nil
	}
	return c, why, nil
}

// abandon returns c without its pledge, which is never given again.
func abandon(c datadir.ClusterRecord) datadir.ClusterRecord {
	c.Abandoned = append(slices.Clone(c.Abandoned), c.Cluster)
	c.Abandoned = c.Abandoned[max(0, len(c.Abandoned)-wire.MaxAbandoned):]
	c.Standing, c.Cluster, c.Proposer, c.Founders, c.ProposerLost = wire.StandingNew, "", "", nil, false
	return c
}

// proposed founds c if all its founders have pledged to it.
func (b *bootstrap) proposed(c datadir.ClusterRecord) (datadir.ClusterRecord, string, error) {
	for _, f := range c.Founders {
		if f.RaftID == b.self.RaftID {
			continue
		}
		if s := b.words[f.RaftID].server; s.Standing != wire.StandingPledged || s.Cluster != c.Cluster {
			return c, b.waitsFor(c), nil
		}
	}
	c.Standing = wire.StandingFounded
	return c, "", nil
}

// keep is the step of a server that has pledged to another's cluster.
func (b *bootstrap) keep() (datadir.ClusterRecord, string, error) {
	c := b.stands
	if slices.Contains(b.words[c.Proposer].server.Abandoned, c.Cluster) {
		return abandon(c), "the next proposal", nil
	}
	c.ProposerLost = c.ProposerLost || b.proposerGone()
	if !c.ProposerLost {
		return c, b.waitsFor(c), nil
	}
	for _, f := range c.Founders {
		s := b.words[f.RaftID].server
		free := s.Cluster == c.Cluster && s.ProposerLost || slices.Contains(s.Abandoned, c.Cluster) ||
			s.Cluster != c.Cluster && s.Standing == wire.StandingFounded // for good
		if f.RaftID != b.self.RaftID && f.RaftID != c.Proposer && !free {
			return c, fmt.Sprintf("%s to see that cluster %s lost its proposer", f.RPCAddress, c.Cluster), nil
		}
	}
	return abandon(c), "the next proposal", nil
}

// proposerGone says whether another server is where the proposer was, begun later
// than the proposer.
func (b *bootstrap) proposerGone() bool {
	at := slices.IndexFunc(b.stands.Founders, func(f wire.Founder) bool { return f.RaftID == b.stands.Proposer })
	if at < 0 {
		return false
	}
	last := max(b.stands.Boot, b.words[b.stands.Proposer].server.Boot)
	for id, w := range b.words {
		if id != b.stands.Proposer && w.server.RPCAddress == b.stands.Founders[at].RPCAddress && w.server.Boot > last {
			return true
		}
	}
	return false
}

// abandonFor returns c with those clusters abandoned that founders whose proposer is lost name and
// that c has nothing to do with: they need our word for it.
func (b *bootstrap) abandonFor(c datadir.ClusterRecord) datadir.ClusterRecord {
	for _, id := range sortedKeys(b.words) {
		s := b.words[id].server
		if s.ProposerLost && s.Cluster != c.Cluster && isFounder(s.Founders, b.self.RaftID) && !slices.Contains(c.Abandoned, s.Cluster) {
			c.Abandoned = append(slices.Clone(c.Abandoned), s.Cluster)
			c.Abandoned = c.Abandoned[max(0, len(c.Abandoned)-wire.MaxAbandoned):]
		}
	}
	return c
}

// candidates returns who may found with us, self among them, sorted by id.
func (b *bootstrap) candidates() ([]wire.Server, error) {
	self := b.self
	self.Standing, self.Cluster, self.Proposer, self.Founders =
		b.stands.Standing, b.stands.Cluster, b.stands.Proposer, b.stands.Founders
	all := []wire.Server{self}
	for _, w := range b.words {
		s := w.server
		if s.Expect == 0 || s.Standing == wire.StandingFounded || b.now.Sub(w.at) > freshFor {
			continue
		}
		if s.Expect != b.expect {
			return nil, fmt.Errorf("the server at %s expects %d servers, this one %d: give all the same",
				s.RPCAddress, s.Expect, b.expect)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b wire.Server) int { return cmp.Compare(a.RaftID, b.RaftID) })
	return all, nil
}

// missing says who is awaited when there are too few.
func (b *bootstrap) missing(there []wire.Server) string {
	var heard []string
	for _, s := range there {
		heard = append(heard, s.RPCAddress)
	}
	slices.Sort(heard)
	var silent []string
	for _, a := range b.join {
		if !slices.Contains(heard, a) {
			silent = append(silent, a)
		}
	}
	text := fmt.Sprintf("%d of %d servers: heard %s", b.expect-len(there), b.expect, strings.Join(heard, ", "))
	if len(silent) > 0 {
		text += "; no answer from " + strings.Join(silent, ", ")
	}
	return text
}

// waitsFor says whose pledge or word is awaited.
func (b *bootstrap) waitsFor(c datadir.ClusterRecord) string {
	var late []string
	for _, f := range c.Founders {
		w, heard := b.words[f.RaftID]
		switch {
		case f.RaftID == b.self.RaftID:
		case !heard || b.now.Sub(w.at) > freshFor:
			late = append(late, f.RPCAddress+" (silent)")
		case w.server.Cluster != c.Cluster && c.Proposer == b.self.RaftID:
			late = append(late, f.RPCAddress)
		case c.Proposer == f.RaftID:
			late = append(late, f.RPCAddress+" (the proposer)")
		}
	}
	return fmt.Sprintf("the founding of cluster %s by %s", c.Cluster, strings.Join(late, ", "))
}

func isFounder(all []wire.Founder, id string) bool {
	return slices.ContainsFunc(all, func(f wire.Founder) bool { return f.RaftID == id })
}
