package worlds

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// checkpointState is what a save callback returns.
type checkpointState = checkpoint.State

// book is what is known of a world from outside: who committed what, with which
// bytes, and what happened when. Safe for concurrent use.
type book struct {
	w *world

	mu struct {
		sync.Mutex

		lines   []string
		states  map[place]*state
		steps   map[int64]quorum.Position // the newest position committed at a step
		quorums map[int64]*formed
		newest  *formed
		unquiet time.Duration // the newest fault
		parted  int64         // the newest quorum that went on without a holder, after a fault
		anew    bool          // since line a step was committed again
		from    int64         // the first of them
		gap     time.Duration // the longest without a commit since watch
		since   time.Duration // the newest commit of anybody, or watch
		commits int
		wrongs  int
		closed  bool

		stray    map[*proc]uint64 // ranks whose bits were flipped, and how often they had healed then
		differed map[*proc][]manager.StateDiffered
	}
}

// place is where a rank's state is.
type place struct {
	at   quorum.Position
	rank int
}

// state is what the first rank that committed a position then held.
type state struct {
	by     string
	params []float32
	sum    [sha256.Size]byte
}

// formed is a quorum, as its members heard of it.
type formed struct {
	id      int64
	members []string
	at      time.Duration
}

func newBook(w *world) *book {
	b := &book{w: w}
	b.mu.states = make(map[place]*state)
	b.mu.steps = make(map[int64]quorum.Position)
	b.mu.quorums = make(map[int64]*formed)
	b.mu.stray = make(map[*proc]uint64)
	b.mu.differed = make(map[*proc][]manager.StateDiffered)
	return b
}

// linesKept bounds what a failure prints.
const linesKept = 80

func (b *book) note(who, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteLocked(who, format, args...)
}

func (b *book) noteLocked(who, format string, args ...any) {
	if len(b.mu.lines) >= 4*linesKept {
		b.mu.lines = slices.Clone(b.mu.lines[3*linesKept:])
	}
	line := fmt.Sprintf("%9.3fs %-10s %s", b.w.now().Seconds(), who, fmt.Sprintf(format, args...))
	b.mu.lines = append(b.mu.lines, line)
}

// fault is note of something that the world does to somebody.
func (b *book) fault(who, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.unquiet = b.w.now()
	b.noteLocked(who, "FAULT "+format, args...)
}

// wrong says that something is not as it must be.
func (b *book) wrong(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrongLocked(format, args...)
}

// maxWrongs bounds what one world complains of: the first is the finding.
const maxWrongs = 5

func (b *book) wrongLocked(format string, args ...any) {
	if b.mu.closed {
		return
	}
	text := fmt.Sprintf(format, args...)
	b.noteLocked("WRONG", "%s", text)
	if b.mu.wrongs++; b.mu.wrongs <= maxWrongs {
		b.w.t.Errorf("at %v: %s", b.w.now(), text)
	}
}

// close judges no more: the world ends, one process after the other, and who is left
// for a moment may go on with what is left.
func (b *book) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.closed = true
}

// print shows the newest lines.
func (b *book) print() {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := b.mu.lines[max(len(b.mu.lines)-linesKept, 0):]
	b.w.t.Logf("the last %d events:\n%s", len(lines), strings.Join(lines, "\n"))
}

// read notes that a rank begins with the state of a position, from a file.
func (b *book) read(p *proc, at quorum.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.states[place{at, p.rank}] = &state{
		by: p.name, params: slices.Clone(p.params), sum: sha256.Sum256(tensor.Of(p.params).Bytes()),
	}
}

// event takes in what a manager tells its user.
func (b *book) event(p *proc, e manager.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, quiet := e.(manager.StepCommitted); quiet {
		return
	}
	b.noteLocked(p.name, "%v", e)
	switch e := e.(type) {
	case manager.QuorumFormed:
		b.formedLocked(e)
	case manager.StateDiffered:
		b.mu.differed[p] = append(b.mu.differed[p], e)
	}
}

// strays notes that a rank's bits are being flipped: until it has healed, its bytes,
// and the gradients from them, are its own.
func (b *book) strays(p *proc) {
	heals := p.m.Stats().Heals
	b.fault(p.name, "a bit flips")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.stray[p] = heals
}

// isStray says that a rank's flipped bits were not healed yet. Whoever averages with
// what it computes from them gets the same as all others, but not what would be right.
func (b *book) isStray(p *proc) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	heals, ok := b.mu.stray[p]
	return ok && p.m.Stats().Heals == heals
}

// anyStray says that somebody's is, or was within this step.
func (b *book) anyStray() bool {
	return slices.ContainsFunc(b.w.procs(), func(p *proc) bool { return p.alive() && b.isStray(p) })
}

// formedLocked notes a quorum, and looks whom it replaces.
func (b *book) formedLocked(e manager.QuorumFormed) {
	if b.mu.quorums[e.QuorumID] != nil {
		return
	}
	f := &formed{id: e.QuorumID, members: e.Members, at: b.w.now()}
	b.mu.quorums[e.QuorumID] = f
	old := b.mu.newest
	if old != nil && old.id > f.id {
		return // heard late
	}
	b.mu.newest = f
	if old == nil || !b.quietLocked(old) {
		return
	}
	for _, id := range old.members {
		if !slices.Contains(f.members, id) {
			b.wrongLocked("quorum %d replaces %d without %s, though all its members were up and nothing was cut",
				f.id, old.id, id)
		}
	}
}

// quietLocked tells whether all members of a quorum behave, and nothing has
// happened to anybody since it was formed, or for a long time.
func (b *book) quietLocked(q *formed) bool {
	if now := b.w.now(); b.mu.unquiet >= q.at && now-b.mu.unquiet < calm || !b.w.whole() {
		return false
	}
	for _, id := range q.members {
		ranks := b.w.find(id)
		if len(ranks) == 0 || slices.ContainsFunc(ranks, func(p *proc) bool { return !p.behaves() }) {
			return false
		}
	}
	return true
}

// calm is how long after a fault its consequences may last.
const calm = 2 * time.Minute

// find are the processes of a replica id.
func (w *world) find(id string) []*proc {
	return slices.DeleteFunc(w.procs(), func(p *proc) bool { return p.m.ReplicaID() != id })
}

// behaves: the process is up and its trainer computes, what the others compute.
func (p *proc) behaves() bool {
	if m := &p.r.manners; m.odd || m.skips || m.healFails {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.mu.dead && !p.mu.hung && !p.mu.slow && !p.mu.leaves && p.mu.err == nil
}

// isOut: the process is down, or its trainer hangs or has ended.
func (p *proc) isOut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.dead || p.mu.hung || p.mu.err != nil
}

// commits applies a step that ShouldCommit has committed, and checks the average
// against the parameters that it began with and those who contributed. What one that
// leaves a collective out makes of a step that it ends alone is its own.
func (b *book) commits(ctx context.Context, p *proc, grads []float32) {
	step := p.m.Step()
	if m := &p.r.manners; !b.anyStray() && !m.odd && !m.skips {
		b.checkAverage(p, step, grads)
	}
	for i := range p.params {
		if i == len(p.params)/2 {
			failpoint.At(ctx, failpoint.ApplyDuring)
		}
		p.params[i] -= grads[slots+i] / 8
	}
}

func (b *book) checkAverage(p *proc, step int64, grads []float32) {
	var who []int
	for i, x := range grads[:slots] {
		if x != 0 {
			who = append(who, i)
		}
	}
	share := 1 / float64(max(len(who), 1))
	for _, i := range who {
		if math.Abs(float64(grads[i])-share) > 1e-6 {
			b.wrong("%s: step %d: %d contributed, and the share of slot %d is %v", p.name, step, len(who), i, grads[i])
			return
		}
	}
	for i := range p.params {
		want := float64(p.params[i]) / 64
		for _, index := range who {
			want += share * float64(own(index, p.rank, step-1, i))
		}
		if got := float64(grads[slots+i]); len(who) > 0 && math.Abs(got-want) > 1e-3+1e-4*math.Abs(want) {
			b.wrong("%s: step %d: the average of slots %v is %v, want %v: somebody computed from other parameters",
				p.name, step, who, got, want)
			return
		}
	}
}

// atRest compares what the rank holds with its position, when no call is under way.
func (p *proc) atRest(committed bool) {
	at := p.m.Position()
	b := p.w.book
	stray := b.isStray(p)
	p.mu.Lock()
	p.mu.at = at
	if committed {
		p.mu.last = p.w.now()
		if p.mu.first == 0 {
			p.mu.first = p.mu.last
		}
	}
	dead := p.mu.dead
	p.mu.Unlock()
	if at.Step == 0 || dead || stray {
		return // before the first step there are as many states as replicas
	}
	if p.inPlace && !committed && !p.m.HoldsState() {
		return // as its trainer is told
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := sha256.Sum256(tensor.Of(p.params).Bytes())
	key := place{at, p.rank}
	known := b.mu.states[key]
	switch {
	case known == nil && !committed:
		b.wrongLocked("%s holds step %d of quorum %d, which no call of anybody has committed", p.name, at.Step, at.QuorumID)
	case known == nil:
		b.mu.states[key] = &state{by: p.name, params: slices.Clone(p.params), sum: sum}
		b.committedLocked(p, at)
	case known.sum != sum:
		b.wrongLocked("%s and %s hold different bytes at step %d of quorum %d (C1): %v and %v",
			p.name, known.by, at.Step, at.QuorumID, p.params[:2], known.params[:2])
	}
}

// committedLocked notes the first commit of a position, and looks for a fork.
func (b *book) committedLocked(p *proc, at quorum.Position) {
	now := b.w.now()
	b.mu.gap = max(b.mu.gap, now-b.mu.since)
	b.mu.since = now
	b.mu.commits++
	old, forked := b.mu.steps[at.Step]
	b.mu.steps[at.Step] = at
	if !forked || old == at || p.rank != 0 {
		return
	}
	b.noteLocked(p.name, "commits step %d in quorum %d again, after quorum %d", at.Step, at.QuorumID, old.QuorumID)
	if !b.mu.anew {
		b.mu.anew, b.mu.from = true, at.Step
	}
	switch {
	case old.QuorumID < b.mu.parted:
		return // the line that was left then, however long it was
	case now-b.mu.unquiet < calm || !b.w.whole():
		b.mu.parted = at.QuorumID
		return
	}
	for _, o := range b.w.procs() {
		o.mu.Lock()
		holds := o.mu.at.Step >= at.Step && o.mu.at != at && o != p
		o.mu.Unlock()
		// One rank that hangs takes its replica out, and with it what the others hold.
		if holds && !slices.ContainsFunc(b.w.find(o.m.ReplicaID()), (*proc).isOut) {
			b.wrongLocked("step %d of quorum %d is committed again in quorum %d, while %s, which is up, holds it",
				at.Step, old.QuorumID, at.QuorumID, o.name)
			return
		}
	}
}

// line begins to watch whether the job goes on from another position than the newest.
func (b *book) line() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.anew = false
}

// lineFrom is the step from which the job goes on since line: the first that was
// committed again, after all who held it were lost, or hung, and were left; newest if
// none was.
func (b *book) lineFrom(newest int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.anew {
		return min(newest, b.mu.from)
	}
	return newest
}

// sum says in a line what there was.
func (b *book) sum() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.w.t.Logf("%d commits, %d quorums in %v", b.mu.commits, len(b.mu.quorums), b.w.now())
}

// watch begins to measure the longest time without a commit.
func (b *book) watch() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.gap, b.mu.since = 0, b.w.now()
}

// longest is the longest time without a commit since watch.
func (b *book) longest() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.mu.gap, b.w.now()-b.mu.since)
}
