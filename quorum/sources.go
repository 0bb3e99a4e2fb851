package quorum

import (
	"slices"
	"time"
)

// MaxSources bounds the peers of Sources.
const MaxSources = 8

// Sources is where a replica can have most of a state from before it joins (§5): the
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
// Each asker begins at another member. Whoever has not joined is called when the
// quorum has fallen and none follows for a heartbeat timeout: see callCopiers.
//
//	d is at 0@0, a, b and c train at 900@3    it copies from them, beginning at one of them
//	the quorum falls, {a, b, c} follows       it copies on: they are members still
//	the quorum falls, none follows            it is called: it may be the one that is missing
//	a, b and c die, {e, f} follows            it is called (callOrphans): its donors are gone
func (m *Machine) Sources(now time.Time, id ReplicaID, own Position) Sources {
	m.Advance(now)
	r := m.replicas[id]
	if m.last == nil || m.fallen || m.client != KindSkerry || r == nil || r.member {
		return Sources{}
	}
	cluster := m.last.Cluster
	plan := planHeals(m.last)
	least := plan.max
	s := Sources{Token: m.last.Token}
	var all []Peer
	for rank, member := range m.last.Members {
		o := m.replicas[member.ReplicaID]
		// One that drains is about to go, one that is stuck or away may never answer.
		if o == nil || !o.alive() {
			continue
		}
		// One that has to heal, or is behind, would give what is to be healed (C1).
		if c := orderPositions(cluster, o.position, least); c < 0 || c == 0 && plan.heals(rank) {
			continue
		}
		if len(all) == 0 || orderPositions(cluster, o.position, s.Max) > 0 {
			s.Max = o.position
		}
		all = append(all, Peer{ReplicaID: member.ReplicaID, Rank: rank, Address: member.Address})
	}
	// §5: it is level, so it joins and need not copy; or every fresh replica has its own bytes.
	if s.Max.Step == 0 || orderPositions(cluster, own, s.Max) >= 0 {
		return Sources{}
	}
	// Newcomers that come together do not all read from one member.
	first := turnOf(id, len(all))
	for i := range min(len(all), MaxSources) {
		s.Peers = append(s.Peers, all[(first+i)%len(all)])
	}
	r.donors = nil
	for _, p := range s.Peers {
		r.donors = append(r.donors, p.ReplicaID)
	}
	return s
}

// callOrphans tells those who copy from nobody that is in the quorum just formed, or
// restored: their donors are dead, or hang, and give them nothing. They join, and heal
// from members. (One that copied from the only member, whose trainer hung, copied on
// until HealTimeout, though others had formed a quorum long since. So did one that the
// ledger of an older disk had sent to a member of long ago.)
func (m *Machine) callOrphans() {
	for _, r := range m.order {
		// Who has joined is answered by a quorum, which names its sources.
		if r.member || r.joined || !r.session || len(r.donors) == 0 {
			continue
		}
		stays := func(id ReplicaID) bool {
			o := m.replicas[id]
			return o != nil && o.member
		}
		if !slices.ContainsFunc(r.donors, stays) {
			r.donors = nil
			m.notify(Notice{
				Kind: NoticeFallen, To: []ReplicaID{r.id}, QuorumID: m.lastID(), Reason: "no donor is a member any more",
			})
		}
	}
}

// callAt is when those who have not joined are called; zero: never. Within a heartbeat
// timeout the next quorum mostly follows, and they copy on.
func (m *Machine) callAt() time.Time {
	if !m.fallen || !slices.ContainsFunc(m.order, m.callable) {
		return time.Time{}
	}
	return m.fallenAt.Add(m.config.HeartbeatTimeout)
}

// callable says that a replica is there, has not joined, and was not called yet since
// the last quorum fell. It may be copying a state from before it joins. Whether it
// is only it knows: this machine may have begun after it had asked for sources.
func (m *Machine) callable(r *replica) bool {
	return r.session && !r.member && !r.joined && r.called != m.lastID()
}

// callCopiers tells those who have not joined that there is no quorum to copy from, once
// none has followed the last one in time: where too few are left without them, they
// are waited for.
func (m *Machine) callCopiers(now time.Time) {
	if at := m.callAt(); at.IsZero() || now.Before(at) {
		return
	}
	for _, r := range m.order {
		// Once for each fall: a second call would find it joining.
		if m.callable(r) {
			r.called = m.lastID()
			m.notify(Notice{
				Kind: NoticeFallen, To: []ReplicaID{r.id}, QuorumID: m.lastID(), Reason: "too few are left",
			})
		}
	}
}

// turnOf spreads replicas over n places, each always to the same: an asker that asks again goes
// on where it began, as long as the sources are the same ones.
func turnOf(id ReplicaID, n int) int {
	turn := 0
	for _, b := range []byte(id) {
		turn = (turn*31 + int(b)) % n
	}
	return turn
}
