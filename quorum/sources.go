package quorum

import (
	"slices"
	"time"
)

// MaxSources bounds the peers of Sources.
const MaxSources = 8

// Sources is where a replica can have most of a state from before it joins: the
// members of a quorum that stands without it. The members go on meanwhile, so
// what comes is of several steps; the quorum that it joins then says of which
// position the state must be, and only the difference holds anybody up.
type Sources struct {
	Max   Position // the highest of the sources' positions, as far as is known
	Token Token    // of the standing quorum: its members ask for it
	Peers []Peer   // at most MaxSources, in the order in which to ask
}

// Sources says where replica id, which is at own, should fetch from before it
// joins. There are no sources for a member, for a replica that is level, in a
// quorum that fell, and at step 0, where every fresh replica has bytes of its
// own: then it joins at once.
//
// Members that had to heal in the quorum, and have not committed since, are none.
// Each asker begins at another member. The replica is called when the quorum has
// fallen and none follows for a heartbeat timeout: perhaps it is waited for.
func (m *Machine) Sources(now time.Time, id ReplicaID, own Position) Sources {
	m.Advance(now)
	r := m.replicas[id]
	if m.last == nil || m.fallen || m.client != KindSkerry || r == nil || r.member {
		return Sources{}
	}
	cluster := m.last.Cluster
	least := highest(cluster, m.last.Members)
	s := Sources{Token: m.last.Token}
	var all []Peer
	for rank, member := range m.last.Members {
		o := m.replicas[member.ReplicaID]
		if o == nil || !o.alive() || orderPositions(cluster, o.position, least) < 0 {
			continue
		}
		if len(all) == 0 || orderPositions(cluster, o.position, s.Max) > 0 {
			s.Max = o.position
		}
		all = append(all, Peer{ReplicaID: member.ReplicaID, Rank: rank, Address: member.Address})
	}
	if s.Max.Step == 0 || orderPositions(cluster, own, s.Max) >= 0 {
		return Sources{}
	}
	r.fetches = true
	m.reschedule()
	first := turnOf(id, len(all))
	for i := range min(len(all), MaxSources) {
		s.Peers = append(s.Peers, all[(first+i)%len(all)])
	}
	return s
}

// callAt is when those that fetch are called; zero: never.
func (m *Machine) callAt() time.Time {
	if !m.fallen || !slices.ContainsFunc(m.order, func(r *replica) bool { return r.fetches }) {
		return time.Time{}
	}
	return m.fallenAt.Add(m.config.HeartbeatTimeout)
}

// call tells those that fetch that there is no quorum to fetch from, as soon as
// none has followed the last one in time: where too few are left without them,
// they are waited for.
func (m *Machine) call(now time.Time) {
	if at := m.callAt(); at.IsZero() || now.Before(at) {
		return
	}
	for _, r := range m.order {
		if r.fetches && r.session {
			m.notify(Notice{
				Kind: NoticeFallen, To: []ReplicaID{r.id}, QuorumID: m.lastID(), Reason: "too few are left",
			})
		}
		r.fetches = false
	}
}

// turnOf spreads replicas over n places, each always to the same.
func turnOf(id ReplicaID, n int) int {
	turn := 0
	for _, b := range []byte(id) {
		turn = (turn*31 + int(b)) % n
	}
	return turn
}
