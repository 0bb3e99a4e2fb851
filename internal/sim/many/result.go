package many

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// traffic is what went through the lighthouse, beats not counted.
type traffic struct {
	up, down, upBytes, downBytes int
	work                         time.Duration // of its processors
}

// kill is one death, and when the others were over it: from then on 0 means not yet.
type kill struct {
	id                       quorum.ReplicaID
	at                       int64
	formed, ready, committed int64
}

// change is one quorum that was formed, and what it came to until all its members could step.
type change struct {
	members int
	formed  int64
	took    time.Duration // until all could step; 0: it fell before
	traffic               // since all members of the quorum before could step
	made    int           // ends of edges
	kept    int
	gets    int // look-ups at the store
	aborts  int // messages that say that this group broke
}

// Result is what happened in a run.
type Result struct {
	options Options
	costs   Costs

	members, heals, leaders int
	steps                   int64
	discarded               int // promised steps, counted at each replica
	joins, accusations      int
	beats                   int
	beating                 time.Duration // the lighthouse's processors for them
	exchanges               int           // of ballots
	ballotBytes             int
	changes                 []*change
	kills                   []*kill
	now                     traffic
}

func (r *Result) came(bytes int) { r.now.up++; r.now.upBytes += bytes }
func (r *Result) went(bytes int) { r.now.down++; r.now.downBytes += bytes }

// formed notes that a quorum was written.
func (r *Result) formed(at int64, g *group) {
	r.changes = append(r.changes, &change{members: len(g.members), formed: at})
	g.change = r.changes[len(r.changes)-1]
	for _, k := range r.kills {
		if _, in := slices.BinarySearch(g.ids, k.id); k.formed == 0 && !in {
			k.formed = at
		}
	}
}

// ready notes that all members of a quorum can step.
func (r *Result) ready(at int64, g *group) {
	if g.change.took > 0 {
		return // a later round of it
	}
	g.change.took, g.change.traffic, r.now = time.Duration(at-g.change.formed), r.now, traffic{}
	for _, k := range r.kills {
		if _, in := slices.BinarySearch(g.ids, k.id); k.ready == 0 && !in {
			k.ready = at
		}
	}
}

// committed notes a commit by ballots.
func (r *Result) committed(at int64, o *replica) {
	r.steps = max(r.steps, o.rank.Position().Step)
	for _, k := range r.kills {
		if k.committed == 0 && k.ready > 0 {
			k.committed = at
		}
	}
}

// median is the middle one.
func median[T int | time.Duration](all []T) T { return quantile(all, 0.5) }

// quantile is the value that a share of all does not exceed; 0 of none.
func quantile[T int | time.Duration](all []T, share float64) T {
	if len(all) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(all))[min(int(share*float64(len(all))), len(all)-1)]
}

// of is one figure of each.
func of[E any, T any](all []E, figure func(E) T) []T {
	var out []T
	for _, e := range all {
		out = append(out, figure(e))
	}
	return out
}
