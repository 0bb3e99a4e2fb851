package quorum

import "fmt"

// Lists of a view are cut to these lengths: nobody asks thousands for a state.
const (
	// MaxViewSources is how many donors a member that heals is told.
	MaxViewSources = 16
	// MaxViewPeers is how many of those that heal a donor is told. It serves
	// whoever asks; the names are for people.
	MaxViewPeers = 64
)

// View is what one member has to know (§4.3) of a quorum whose list is too long to be
// sent to everybody: its own part, and the few others that it has to do with. A
// quorum that carries a view has no members and no participants.
//
// Of 2,000 members, of whom the last two heal from the others, which are at 9@3, the view of the
// one at replica rank 1 says
//
//	Rank 1, WorldSize 2000, ParticipantRank 1, Divisor 1998, Participants {0, 1998}
//	Max 9@3, MaxRank 1, MaxWorldSize 1998, Donor, Healing ranks 1998 and 1999, HealingCount 2
//	Ranks[0]: Primary rank 0, Targets rank 1999, which asks it first
type View struct {
	Self            Member
	Rank            int         // replica rank
	WorldSize       int         // number of members
	ParticipantRank int         // -1: none
	Divisor         int         // number of participants (§2.2)
	Participants    []RankRange // the participants' replica ranks
	Max             Position    // what up to date means in this quorum
	MaxRank         int         // among those that hold Max; -1: it is none of them
	MaxWorldSize    int         // how many hold Max; torchft's max_world_size
	CommitFailures  int64       // the most that a member reported
	Donor           bool        // members that heal may ask it (§5)
	Heal            bool        // it takes the state Max before it counts as up to date
	Healing         []Peer      // the first MaxViewPeers of those that heal
	HealingCount    int         // all of them
	Ranks           []RankView  // by group rank: each rank of the replica finds its own
	// Seats are all members', by replica rank: process groups compare their names,
	// so that no two meet that were told of different members. None: each member's
	// is its rank in this quorum.
	Seats []SeatRun
}

// RankRange is a run of replica ranks: First and the Count-1 after it.
type RankRange struct{ First, Count int }

// RankView is the part of a view that differs between group ranks.
type RankView struct {
	Primary      ReplicaID // the up-to-date member whose store this group rank meets at
	StoreAddress string    // its store's
	Sources      []Peer    // the first MaxViewSources
	Targets      []Peer    // the first MaxViewPeers
}

// Viewer cuts the views of one quorum. It is immutable: cutting all views of n
// members costs O(n).
type Viewer struct {
	q       *Quorum
	plan    healPlan
	ranges  []RankRange // the participants', shared by all views
	fails   int64       // the most commit failures of a member
	healing []Peer      // the first of those that heal, shared
	index   []viewIndex // by replica rank: found once, not once for each view
	seats   []SeatRun   // all members', shared
}

// viewIndex is where a member stands in the lists of the plan; -1: it does not. That of
// participant is its rank among them, and that of heals says whom it asks first.
type viewIndex struct{ participant, upToDate, donor, heals int }

// NewViewer prepares the views of a quorum that has members.
func NewViewer(q *Quorum) *Viewer {
	v := &Viewer{q: q, plan: planHeals(q), index: make([]viewIndex, len(q.Members))}
	next := 0
	// Members and participants are both sorted by id: one pass finds the participants' ranks.
	for rank, m := range q.Members {
		v.fails = max(v.fails, m.CommitFailures)
		v.seats = appendSeat(v.seats, q.seatOf(rank))
		v.index[rank] = viewIndex{-1, -1, -1, -1}
		if next < len(q.Participants) && q.Participants[next] == m.ReplicaID {
			v.index[rank].participant = next
			v.ranges = appendRank(v.ranges, rank)
			next++
		}
	}
	// The plan's lists are of replica ranks. Turned round once, a view finds its place in each
	// without looking through them.
	for i, rank := range v.plan.upToDate {
		v.index[rank].upToDate = i
	}
	for i, rank := range v.plan.donors {
		v.index[rank].donor = i
	}
	for i, rank := range v.plan.healing {
		v.index[rank].heals = i
		if i < MaxViewPeers {
			v.healing = append(v.healing, peer(q, rank))
		}
	}
	return v
}

// appendRank adds a rank, above all in ranges, to the last run or as a new one.
func appendRank(ranges []RankRange, rank int) []RankRange {
	if n := len(ranges); n > 0 && ranges[n-1].First+ranges[n-1].Count == rank {
		ranges[n-1].Count++
		return ranges
	}
	return append(ranges, RankRange{rank, 1})
}

// View is one member's. Who is no member (it has drained) gets nil.
func (v *Viewer) View(id ReplicaID) *View {
	rank, found := memberRank(v.q.Members, id)
	// §5: it has drained, and what it is told is the settlement.
	if !found {
		return nil
	}
	// §4.3: with its seat, for it restates this part after a lost ledger (NewLastAnswer).
	at, me := v.index[rank], v.q.Members[rank].at(v.q.seatOf(rank))
	w := &View{
		Self: me, Rank: rank, WorldSize: len(v.q.Members), ParticipantRank: at.participant,
		Divisor: len(v.q.Participants), Participants: v.ranges, Max: v.plan.max, MaxRank: at.upToDate,
		MaxWorldSize: len(v.plan.upToDate), CommitFailures: v.fails, Donor: at.donor >= 0, Heal: at.heals >= 0,
		Healing: v.healing, HealingCount: len(v.plan.healing), Seats: v.seats,
	}
	// All group ranks' parts go to the replica's manager in one answer.
	for groupRank := range max(me.GroupWorldSize, 1) {
		w.Ranks = append(w.Ranks, v.rankView(at, groupRank))
	}
	return w
}

// rankView is the part of one group rank, with the lists of the plan cut short.
func (v *Viewer) rankView(at viewIndex, groupRank int) RankView {
	primary := v.q.Members[v.plan.primary(groupRank)]
	r := RankView{Primary: primary.ReplicaID, StoreAddress: primary.StoreAddress}
	if at.heals >= 0 {
		r.Sources = v.plan.sources(v.q, at.heals, groupRank, MaxViewSources)
	}
	if at.donor >= 0 {
		r.Targets = v.plan.targets(v.q, at.donor, groupRank, MaxViewPeers)
	}
	return r
}

// For is q as it is sent to one member: without lists, with its view. (With them each change
// of ten thousand members would be 5 GB.)
func (v *Viewer) For(id ReplicaID) Quorum {
	q := *v.q
	q.Members, q.Participants, q.View = nil, nil, v.View(id)
	return q
}

// assign is Assign for a quorum that carries a view. Members are named by their
// seats, each itself too.
func (w *View) assign(q *Quorum, id ReplicaID, groupRank int) (Assignment, error) {
	// A view is one member's. By that of another this one would give, or heal, in its place.
	if w.Self.ReplicaID != id {
		return Assignment{}, fmt.Errorf("%w: %q in quorum %d", ErrNotMember, id, q.ID)
	}
	// Unlike Assign of a list, a rank that the member did not tell of is refused always: a view has
	// no part for it.
	if groupRank < 0 || groupRank >= len(w.Ranks) {
		return Assignment{}, invalidf("group rank = %d, want 0 to %d", groupRank, len(w.Ranks)-1)
	}
	r := w.Ranks[groupRank]
	a := Assignment{
		QuorumID: q.ID, Round: q.Round, ReplicaRank: w.Rank, ReplicaWorldSize: w.WorldSize,
		ParticipantRank: w.ParticipantRank, Divisor: w.Divisor, StoreAddress: r.StoreAddress, Primary: r.Primary,
		Max: w.Max, Position: w.Self.Position, Heal: w.Heal, Sources: r.Sources, Targets: r.Targets,
		Healing: w.Healing, Donor: w.Donor, CommitFailures: w.CommitFailures, Settlement: q.Settlement,
		FirstParticipants: w.MaxWorldSize, MaxRank: w.MaxRank, ReplicaIDs: make([]ReplicaID, w.WorldSize),
	}
	// §4.3: all members of the quorum call each other by these, so that their groups agree.
	for rank, seat := range w.seats(q.ID) {
		a.ReplicaIDs[rank] = seat.Name()
	}
	return a, nil
}

// seats are all members', by rank.
func (w *View) seats(id int64) []Seat {
	runs := w.Seats
	// The sender gave none: then no member has an older one (see Seats).
	if len(runs) == 0 {
		runs = []SeatRun{{id, 0, w.WorldSize}}
	}
	seats := make([]Seat, 0, w.WorldSize)
	for _, r := range runs {
		for i := range r.Count {
			seats = append(seats, Seat{r.QuorumID, r.First + i})
		}
	}
	return seats
}

// Size is the number of members, of a quorum with lists or with a view. len(q.Members) is 0 for
// the latter.
func (q *Quorum) Size() int {
	if q.View != nil {
		return q.View.WorldSize
	}
	return len(q.Members)
}

// ParticipantRanks are the participants' replica ranks, rising. Members and participants of a
// quorum are sorted by id, so one pass over both finds them.
func (q *Quorum) ParticipantRanks() []int {
	var ranks []int
	if q.View != nil {
		for _, r := range q.View.Participants {
			for i := range r.Count {
				ranks = append(ranks, r.First+i)
			}
		}
		return ranks
	}
	next := 0
	for rank, member := range q.Members {
		if next < len(q.Participants) && q.Participants[next] == member.ReplicaID {
			ranks = append(ranks, rank)
			next++
		}
	}
	return ranks
}
