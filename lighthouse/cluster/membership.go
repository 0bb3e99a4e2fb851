package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// healthyWithin is how long ago a voter must have answered the leader to count
// as healthy.
const healthyWithin = 2 * time.Second

// maxRaftServers bounds the servers to whom the log is replicated. Others may
// run, and forward, without it being their concern.
const maxRaftServers = 64

// maxLag is by how many commands a server may be behind and still be level: the
// leader goes on writing while it looks.
const maxLag = 16

// changeKind says what a membership change does.
type changeKind string

const (
	changeNone    changeKind = ""
	changeAdd     changeKind = "add"     // a server as a non-voter
	changePromote changeKind = "promote" // a non-voter to a voter
	changeRemove  changeKind = "remove"  // a server that is gone
	changeAddress changeKind = "move"    // a server's address
)

// change is one membership change, or the reason why there is none.
type change struct {
	Kind    changeKind
	ID      raft.ServerID
	Address raft.ServerAddress
	Voter   bool // for move and remove: it votes

	// Basis is the raft index of the servers that this was decided upon; raft
	// refuses it when they have changed since.
	Basis uint64
	Why   string
}

// memberView is what the leader knows of a server.
type memberView struct {
	RPC      string
	Raft     string // raft address, "" if unknown
	Alive    bool   // by gossip
	Since    time.Time
	NonVoter bool
	Acked    uint64
	AckedAt  time.Time
}

// membership decides the next change of the servers in raft. It is a function of
// its fields. One change is made at a time, and only when it cannot cost the
// majority: a voter is taken out after another has taken its place, and while
// each of the rest is healthy or gone for good itself. Of five voters two may be
// gone: each is replaced in turn, and at every moment more than half of the voters
// are healthy.
type membership struct {
	now          time.Time
	self         raft.ServerID
	voters       int // how many there shall be
	stableFor    time.Duration
	replaceAfter time.Duration
	lastIndex    uint64 // the leader's
	basis        uint64 // the raft index of servers
	servers      []raft.Server
	seen         map[raft.ServerID]memberView
	retired      func(raft.ServerID) bool
	stay         bool // addresses in raft are left as they are: see raceDetector
}

// next returns the change to make now. Its Why explains it, or why there is
// none.
func (m *membership) next() change {
	for _, step := range []func() change{m.move, m.forget, m.add} {
		if c := step(); c.Kind != changeNone {
			return c
		}
	}
	return m.vote()
}

// voting returns the voters.
func (m *membership) voting() []raft.Server {
	return slices.DeleteFunc(slices.Clone(m.servers), func(s raft.Server) bool { return s.Suffrage != raft.Voter })
}

// healthy says whether a server is alive and answers the leader.
func (m *membership) healthy(id raft.ServerID) bool {
	v := m.seen[id]
	return id == m.self || v.Alive && m.now.Sub(v.AckedAt) <= healthyWithin
}

// away returns the voters that are not healthy, except one.
func (m *membership) away(except raft.ServerID) []raft.ServerID {
	var all []raft.ServerID
	for _, s := range m.voting() {
		if s.ID != except && !m.healthy(s.ID) {
			all = append(all, s.ID)
		}
	}
	return all
}

// expected returns the voters, except one, that are not healthy and not gone
// either: what they will be is to be seen before anybody is replaced.
func (m *membership) expected(except raft.ServerID) []raft.ServerID {
	return slices.DeleteFunc(m.away(except), func(id raft.ServerID) bool {
		i := slices.IndexFunc(m.servers, func(s raft.Server) bool { return s.ID == id })
		_, gone := m.gone(m.servers[i])
		return gone
	})
}

// gone says whether a server will not be back: it has been away for long, or
// another one lives at its address.
func (m *membership) gone(s raft.Server) (why string, gone bool) {
	v, known := m.seen[s.ID]
	if s.ID == m.self || v.Alive {
		return "", false
	}
	for _, id := range sortedKeys(m.seen) {
		o := m.seen[id]
		if id != s.ID && o.Alive && (o.RPC == v.RPC && known || o.Raft == string(s.Address)) {
			return fmt.Sprintf("%s is at its address now", id), true
		}
	}
	if since := m.now.Sub(v.Since); since > m.replaceAfter {
		return "it has been gone for over " + m.replaceAfter.String(), true
	}
	return "", false
}

// move follows a server to its new address.
func (m *membership) move() change {
	if m.stay {
		return change{}
	}
	if len(m.away("")) > 0 {
		return change{}
	}
	for _, s := range m.servers {
		v := m.seen[s.ID]
		if v.Alive && v.Raft != "" && v.Raft != string(s.Address) {
			return change{Kind: changeAddress, ID: s.ID, Address: raft.ServerAddress(v.Raft),
				Voter: s.Suffrage == raft.Voter, Why: fmt.Sprintf("it was at %s", s.Address)}
		}
	}
	return change{}
}

// forget drops non-voters that are gone.
func (m *membership) forget() change {
	for _, s := range m.servers {
		if s.Suffrage == raft.Voter {
			continue
		}
		if m.retired(s.ID) {
			return change{Kind: changeRemove, ID: s.ID, Why: "it was taken out of the cluster"}
		}
		if why, gone := m.gone(s); gone {
			return change{Kind: changeRemove, ID: s.ID, Why: why}
		}
	}
	return change{}
}

// add takes in servers that are alive.
func (m *membership) add() change {
	if len(m.servers) >= maxRaftServers {
		return change{}
	}
	for _, id := range sortedKeys(m.seen) {
		v := m.seen[id]
		inRaft := slices.ContainsFunc(m.servers, func(s raft.Server) bool { return s.ID == id })
		if !inRaft && v.Alive && v.Raft != "" && !m.retired(id) {
			return change{Kind: changeAdd, ID: id, Address: raft.ServerAddress(v.Raft), Why: "it has come"}
		}
	}
	return change{}
}

// vote finds who is to vote, and who no longer.
func (m *membership) vote() change {
	voting, spares := m.voting(), m.spares()
	for _, s := range voting {
		why, gone := m.gone(s)
		if !gone {
			continue
		}
		if back := m.expected(s.ID); len(back) > 0 {
			return change{Why: fmt.Sprintf("voter %s is gone, and others are away that may be back: %s", s.ID, list(back))}
		}
		if len(voting) > max(m.voters, 1) {
			return change{Kind: changeRemove, ID: s.ID, Voter: true, Why: why}
		}
		if len(spares) == 0 {
			return change{Why: fmt.Sprintf("voter %s is gone (%s), and no spare is level and stable", s.ID, why)}
		}
		// While the gone one has its vote still, the new one's is needed as well.
		if healthy, all := len(voting)-len(m.away(""))+1, len(voting)+1; 2*healthy <= all {
			return change{Why: fmt.Sprintf("voter %s is gone (%s), and with a spare %d of %d voters would be healthy", s.ID, why, healthy, all)}
		}
		return promote(spares[0], fmt.Sprintf("it takes the place of %s: %s", s.ID, why))
	}
	if away := m.away(""); len(away) > 0 {
		return change{Why: fmt.Sprintf("voters are away: %s", list(away))}
	}
	odd := len(voting) + 1 + len(voting)%2 // the next odd number above
	switch {
	case len(voting) >= m.voters:
		return change{Why: "all voters are there"}
	case odd <= m.voters && len(spares) >= odd-len(voting):
		return promote(spares[0], fmt.Sprintf("%d voters are wanted", m.voters))
	}
	return change{Why: fmt.Sprintf("%d of %d voters: more servers are wanted, level and stable for %v",
		len(voting), m.voters, m.stableFor)}
}

func promote(s raft.Server, why string) change {
	return change{Kind: changePromote, ID: s.ID, Address: s.Address, Why: why}
}

// spares returns the non-voters that may become voters, the longest alive first.
func (m *membership) spares() []raft.Server {
	var all []raft.Server
	for _, s := range m.servers {
		v := m.seen[s.ID]
		if s.Suffrage != raft.Voter && !v.NonVoter && m.healthy(s.ID) && v.Acked+maxLag >= m.lastIndex && v.Acked > 0 &&
			m.now.Sub(v.Since) >= m.stableFor && !m.retired(s.ID) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b raft.Server) int {
		return cmp.Or(m.seen[a.ID].Since.Compare(m.seen[b.ID].Since), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// removable returns why taking out a server would endanger the cluster, or nil.
func (m *membership) removable(id raft.ServerID) error {
	voting := m.voting()
	if !slices.ContainsFunc(voting, func(s raft.Server) bool { return s.ID == id }) {
		return nil
	}
	if len(voting) == 1 {
		return fmt.Errorf("server %s is the only voter: without it the cluster is over", id)
	}
	if away := m.away(id); len(away) > 0 {
		return fmt.Errorf("voters are away: %s: bring them back first, or force it", list(away))
	}
	return nil
}

func list(ids []raft.ServerID) string {
	var all []string
	for _, id := range ids {
		all = append(all, string(id))
	}
	return strings.Join(all, ", ")
}
