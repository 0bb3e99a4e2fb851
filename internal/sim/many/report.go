package many

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// frameBytes is the header of a frame of package pg/tcp, which carries a ballot.
const frameBytes = 96

// Write says what happened, for people. Times are virtual; those of processors are by the costs.
func (r *Result) Write(out io.Writer) {
	o := r.options
	fmt.Fprintf(out, "%d replicas, seed %d, %v: %d steps, %d quorums, %d killed, %d healed, %d changes of leader, %d promises discarded\n",
		o.Replicas, o.Seed, o.Duration, r.steps, len(r.changes), len(r.kills), r.heals, r.leaders, r.discarded)
	r.writeReforms(out)
	r.writeStep(out)
	whole := slices.DeleteFunc(slices.Clone(r.changes), func(c *change) bool { return c.took == 0 })
	if n := len(r.changes) - len(whole); n > 0 {
		fmt.Fprintf(out, "%d quorums fell before all their members could step\n", n)
	}
	if len(whole) == 0 {
		return
	}
	later := whole
	if first := r.changes[0]; first.took > 0 {
		writeChanges(out, "the first quorum", whole[:1])
		later = whole[1:]
	}
	writeChanges(out, "a quorum without newcomers", slices.DeleteFunc(slices.Clone(later), func(c *change) bool { return c.made > 0 }))
	writeChanges(out, "a quorum with newcomers", slices.DeleteFunc(slices.Clone(later), func(c *change) bool { return c.made == 0 }))
	seconds := o.Duration.Seconds()
	fmt.Fprintf(out, "the lighthouse: %.0f beats a second, %.2f cores for them; %d joins, %d accusations in all\n",
		float64(r.beats)/seconds, r.beating.Seconds()/seconds, r.joins, r.accusations)
	n := max(r.members, 1)
	fmt.Fprintf(out, "the mesh: %d edges at each replica, %d in all\n", n-1, n*(n-1)/2)
}

// writeReforms tells how long deaths took.
func (r *Result) writeReforms(out io.Writer) {
	over := slices.DeleteFunc(slices.Clone(r.kills), func(k *kill) bool { return k.committed == 0 })
	if n := len(r.kills) - len(over); n > 0 {
		fmt.Fprintf(out, "%d kills were not over at the end\n", n)
	}
	if len(over) == 0 {
		return
	}
	for _, what := range []struct {
		name string
		at   func(*kill) int64
	}{
		{"the next quorum is formed", func(k *kill) int64 { return k.formed }},
		{"all its members can step", func(k *kill) int64 { return k.ready }},
		{"a step is committed", func(k *kill) int64 { return k.committed }},
	} {
		took := of(over, func(k *kill) time.Duration { return time.Duration(what.at(k) - k.at) })
		fmt.Fprintf(out, "from a kill until %-26s median %8v, p99 %8v\n", what.name+":", rounded(median(took)), rounded(quantile(took, 0.99)))
	}
}

// writeStep tells what a step costs.
func (r *Result) writeStep(out io.Writer) {
	if r.exchanges == 0 {
		return
	}
	n, each := r.members, r.ballotBytes/r.exchanges
	fmt.Fprintf(out, "a step, at each replica: %d ballots out and in, %s each way, %v of its processors; %d messages of gradients, %s each way\n",
		n-1, bytes(each), rounded(time.Duration(n-1)*r.costs.Ballot), 2*(n-1), bytes(2*(n-1)*r.costs.gradients/max(n, 1)))
}

// writeChanges tells what quorums cost, each figure the median.
func writeChanges(out io.Writer, what string, all []*change) {
	if len(all) == 0 {
		return
	}
	middle := func(figure func(*change) int) int { return median(of(all, figure)) }
	took := of(all, func(c *change) time.Duration { return c.took })
	work := of(all, func(c *change) time.Duration { return c.work })
	fmt.Fprintf(out, "%s (of %d), medians: written → all members can step %v (p99 %v)\n", what, len(all), rounded(median(took)), rounded(quantile(took, 0.99)))
	fmt.Fprintf(out, "  lighthouse: %d messages in, %s; %d out, %s; %v of its processors\n",
		middle(func(c *change) int { return c.up }), bytes(middle(func(c *change) int { return c.upBytes })),
		middle(func(c *change) int { return c.down }), bytes(middle(func(c *change) int { return c.downBytes })), rounded(median(work)))
	fmt.Fprintf(out, "  each replica: %d edges kept, %d made, %d aborts; the store: %d look-ups\n",
		middle(func(c *change) int { return c.kept / c.members }), middle(func(c *change) int { return c.made / c.members }),
		middle(func(c *change) int { return c.aborts / c.members }), middle(func(c *change) int { return c.gets }))
}

// rounded is a duration as people read it.
func rounded(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// bytes is a number of bytes as people read it.
func bytes(n int) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
