package sim

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// This file is a rank's group, and the state that comes through it.

// configure builds the group: everybody says hello to everybody.
func (r *rank) configure(q *request) {
	r.group++
	r.whole, r.ops = false, 0
	id := r.QuorumID()
	r.boxes = slices.DeleteFunc(r.boxes, func(b *box) bool { return b.key.QuorumID < id })
	r.peers = r.peers[:0]
	for _, o := range r.Quorum().Members {
		if o.ReplicaID != r.m.rid() {
			r.peers = append(r.peers, r.m.w.byID[o.ReplicaID].ranks[r.g])
		}
	}
	group := r.group
	r.m.after(opDeadline, func() {
		if r.group == group && !r.Ready() {
			r.m.w.late(r, "configure", opDeadline)
			r.fall(id, "configure took too long")
		}
	})
	r.openStore(group, 0)
	r.configured()
}

func (r *rank) isPeer(o *rank) bool { return slices.Contains(r.peers, o) }

func (r *rank) helloOf(o *member) int64 {
	if o.index < len(r.hellos) {
		return r.hellos[o.index]
	}
	return 0
}

// hello of a higher quorum breaks the one that the sender left.
func (r *rank) hello(from *rank, id int64) {
	for len(r.hellos) <= from.m.index {
		r.hellos = append(r.hellos, 0)
	}
	r.hellos[from.m.index] = max(r.hellos[from.m.index], id)
	if r.Quorum() == nil || !r.Standing() || !r.isPeer(from) {
		return
	}
	if id > r.QuorumID() {
		r.broke(from.name + " is in a later quorum")
		return
	}
	r.configured()
}

// configured goes on once all hellos are there.
func (r *rank) configured() {
	if r.Ready() || !r.Standing() || r.request == nil {
		return
	}
	for _, o := range r.peers {
		if r.helloOf(o.m) != r.QuorumID() {
			return
		}
	}
	m := r.m
	m.probing = slices.DeleteFunc(m.probing, func(o *member) bool { return r.isPeer(o.ranks[r.g]) })
	r.whole = true
	r.Configured()
	r.healIfBehind(r.request)
}

// broke ends the group, and what is pending in it. A request that is under way says
// more than the break, unless it waits for the group itself.
func (r *rank) broke(why string) {
	if !r.whole && !r.Standing() {
		return
	}
	pending := r.phase == reducing
	r.abort()
	if pending || r.request == nil || !r.Ready() {
		r.fall(r.QuorumID(), why)
	}
}

// peerBroke hears that a peer has aborted its group of quorum id.
func (r *rank) peerBroke(o *rank, id int64) {
	if r.In(id) && r.Standing() {
		r.broke(o.name + " aborted")
	}
}

// abort ends what is pending in the group.
func (r *rank) abort() {
	r.group++
	r.whole = false
	switch r.phase {
	case reducing:
		r.m.soon(r.during(func() { r.opFailed("the group is broken") }))
	case balloting:
		r.m.soon(r.during(func() { r.judge(true) }))
	}
}

// healing is one transfer of a state to this rank, which lies beside its own until it
// is loaded.
type healing struct {
	at      quorum.Position
	id      int64 // of the quorum
	beside  bool  // the collectives do not wait for it
	done    bool
	failed  bool
	bytes   uint64
	line    int
	digest  quorum.Digest
	arrives func() // once, when it is done
}

// healIfBehind fetches the state that the quorum is at, if this rank is not.
func (r *rank) healIfBehind(q *request) {
	r.heal = nil
	if !r.Behind() || q.forbid {
		r.fulfilled(q)
		return
	}
	before := q.sync || r.plan.ParticipantRank >= 0
	h := &healing{at: r.plan.Max, id: r.QuorumID(), beside: !before}
	r.heal = h
	if before {
		round := q.round
		h.arrives = func() {
			switch {
			case r.request != q || q.round != round:
			case h.failed:
				r.unhealed(h)
			default:
				r.fulfilled(q)
			}
		}
		r.fetch(h, 0)
		return
	}
	h.arrives = r.poke
	r.fetch(h, 0)
	r.fulfilled(q)
}

// unhealed tells the lighthouse that this rank's heal failed, unless its group broke.
func (r *rank) unhealed(h *healing) {
	if r.heal == h {
		r.heal = nil
	}
	if r.whole && r.In(h.id) {
		r.accuse(quorum.Accusation{
			By: r.m.rid(), Against: r.m.rid(), QuorumID: h.id, Evidence: "its heal failed", Kind: quorum.AccusedUnhealed,
		})
	}
	r.fall(h.id, "its heal failed")
}

// fetch asks the n-th donor.
func (r *rank) fetch(h *healing, n int) {
	if r.heal != h || h.done {
		return
	}
	if n == len(r.plan.Sources) || r.m.ailment.unhealed || !r.In(h.id) || !r.Standing() {
		h.done, h.failed = true, true
		h.arrives()
		return
	}
	w := r.m.w
	donor := w.byID[r.plan.Sources[n].ReplicaID].ranks[r.g]
	w.send(r.m, donor.m, func() {
		if donor.QuorumID() != h.id || donor.Position() != h.at && !w.mutant.anyDonor {
			return // it answers nothing, and the next one is asked
		}
		bytes, line, digest := donor.bytes, donor.line, donor.Digest()
		w.send(donor.m, r.m, func() {
			if r.heal != h || h.done {
				return
			}
			h.done, h.bytes, h.line, h.digest = true, bytes, line, digest
			h.arrives()
		})
	})
	r.m.after(healDeadline/time.Duration(len(r.plan.Sources)), func() { r.fetch(h, n+1) })
}

// load makes the fetched state this rank's own, or says that there is none.
func (r *rank) load(h *healing) {
	r.heal = nil
	if h.failed {
		r.unhealed(h)
		return
	}
	r.bytes, r.line = h.bytes, h.line
	r.rested.due = false
	r.Healed(h.at, 0, h.digest)
	if r.Position().Step > 0 {
		r.m.w.check.Reached(r.m.id, r.g, r.Position(), r.bytes)
	}
	r.m.w.note("%s has healed, to %v", r.name, h.at)
}
