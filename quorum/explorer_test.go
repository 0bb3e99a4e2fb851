package quorum_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

var full = flag.Bool("full", false, "explore small worlds to the end, for minutes")

// explorer searches all worlds that moves can reach.
type explorer struct {
	ranks        int
	mech         mechanics
	mangle       mangle
	strictAccuse bool
	outcomes     map[outcomeKey][]outcome
	cp           *copier
	hash         *hasher

	counts map[string]int // how often a rule's premise was met, for tests that must not be empty

	seen    map[uint64]step
	States  int
	Moves   int
	Fair    int // worlds from which the fair run was tried
	Stopped bool
}

type outcomeKey struct {
	Members  int
	Unhealed uint8
}

// step is how a state was first reached.
type step struct {
	From uint64
	By   move
}

// violation is an error with the moves that lead to it.
type violation struct {
	Err   error
	Trace []move
	Fair  bool // found by the fair run at the end of the trace
}

// newExplorer prepares the outcomes of a step for up to n members.
func newExplorer(n, ranks int, mech mechanics, mg mangle) (*explorer, error) {
	x := &explorer{
		ranks: ranks, mech: mech, mangle: mg, cp: newCopier(), hash: newHasher(),
		outcomes: map[outcomeKey][]outcome{}, seen: map[uint64]step{}, counts: map[string]int{},
	}
	for size := 1; size <= n; size++ {
		for mask := range uint8(1<<size - 1) {
			o, err := outcomes(mech, size, ranks, mask)
			if err != nil {
				return nil, err
			}
			x.outcomes[outcomeKey{size, mask}] = o
		}
	}
	return x, nil
}

// limits end a search early.
type limits struct {
	States int
	Time   time.Duration
	Fair   int // try the fair run from each n-th state; 0: never
}

// frame is a state on the way down, and how many of its moves were tried.
type frame struct {
	w     *world
	key   uint64
	moves []move
	next  int
}

// search visits the worlds that are reachable from w, depth first, and returns
// the first violation. Only the way down is kept whole: of all others the key.
func (x *explorer) search(w *world, lim limits) *violation {
	begun := time.Now()
	root := keyOf(x.hash, w, w.Now)
	x.seen[root] = step{}
	way := []frame{{w: w, key: root, moves: x.shuffled(w)}}
	for len(way) > 0 {
		at := &way[len(way)-1]
		if at.next == len(at.moves) {
			way = way[:len(way)-1]
			continue
		}
		v := at.moves[at.next]
		at.next++
		next := deepCopy(x.cp, at.w)
		x.Moves++
		if err := x.try(next, v); err != nil {
			return &violation{err, append(x.trace(root, at.key), v), false}
		}
		key := keyOf(x.hash, next, next.Now)
		if _, ok := x.seen[key]; ok || next.Idle {
			continue
		}
		x.seen[key] = step{From: at.key, By: v}
		x.States++
		if lim.Fair > 0 && x.States%lim.Fair == 0 {
			if err := x.fair(next); err != nil {
				return &violation{err, x.trace(root, key), true}
			}
		}
		if x.States >= lim.States || x.States%256 == 0 && time.Since(begun) > lim.Time {
			x.Stopped = true
			return nil
		}
		way = append(way, frame{w: next, key: key, moves: x.shuffled(next)})
	}
	return nil
}

// shuffled is moves in an order of its own, always the same: a search that is
// stopped early has then seen a bit of everything.
func (x *explorer) shuffled(w *world) []move {
	out := x.moves(w)
	rng := rand.New(rand.NewPCG(uint64(x.States), 11))
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// try is apply, with panics of the code under test as violations.
func (x *explorer) try(w *world, v move) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return x.apply(w, v)
}

// trace returns the moves from root to key.
func (x *explorer) trace(root, key uint64) []move {
	var out []move
	for key != root {
		s := x.seen[key]
		out = append(out, s.By)
		key = s.From
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// repeat runs a trace from a fresh world, without the moves that are not
// possible there. It returns the moves made, the world, and the error that ends
// it.
func (x *explorer) repeat(fresh func() *world, trace []move) ([]move, *world, error) {
	w := fresh()
	var made []move
	for _, v := range trace {
		if !slices.Contains(x.moves(w), v) {
			continue
		}
		made = append(made, v)
		if err := x.try(w, v); err != nil {
			return made, w, err
		}
	}
	return made, w, nil
}

// shorten takes moves out of a trace as long as the same kind of violation
// remains.
func (x *explorer) shorten(fresh func() *world, v *violation) *violation {
	kind := ruleOf(v.Err)
	for size := len(v.Trace) / 2; size >= 1; {
		cut := false
		for i := 0; i+size <= len(v.Trace); {
			shorter, w, err := x.repeat(fresh, slices.Concat(v.Trace[:i], v.Trace[i+size:]))
			fair := err == nil && v.Fair
			if fair {
				err = x.fair(w)
			}
			if err != nil && ruleOf(err) == kind && len(shorter) < len(v.Trace) {
				v, cut = &violation{err, shorter, fair}, true
			} else {
				i += size
			}
		}
		if !cut || size > len(v.Trace)/2 {
			size = min(size/2, len(v.Trace)/2)
		}
	}
	return v
}

// ruleOf names the rule that a violation is about: "Q5", "C1", ….
func ruleOf(err error) string {
	if errors.Is(err, errUnfair) {
		return "fair"
	}
	s := err.Error()
	for i := 0; i+3 <= len(s); i++ {
		if strings.ContainsRune("QCD", rune(s[i])) && s[i+1] >= '0' && s[i+1] <= '9' {
			end := i + 2
			for end < len(s) && s[end] >= '0' && s[end] <= '9' {
				end++
			}
			return s[i:end]
		}
	}
	return "other"
}

// describe prints a trace with what each move led to.
func (x *explorer) describe(fresh func() *world, v *violation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n", v.Err)
	w := fresh()
	for i, m := range v.Trace {
		what := ""
		if r := w.rep(m.Who); r != nil && m.Kind == mvStep {
			what = fmt.Sprintf(" quorum %d.%d %v: %v", r.In().ID, r.In().Round, idsOf(r.In()),
				x.outcomes[outcomeKey{len(r.In().Members), m.Mask}][m.Pick])
		}
		if r := w.rep(m.Who); r != nil && m.Kind == mvDeliver {
			what = describeMessage(r.Inbox)
		}
		err := x.try(w, m)
		fmt.Fprintf(&b, "%3d %v%s\n", i+1, m, what)
		for i := range w.Reps {
			r := &w.Reps[i]
			if r.ID == m.Who || m.Who == "" {
				fmt.Fprintf(&b, "      %s\n", describeReplica(r))
			}
		}
		fmt.Fprintf(&b, "      lighthouse: %v\n", w.LH.Decide(w.Now).Reason)
		if err != nil {
			break
		}
	}
	return b.String()
}

func describeMessage(in []message) string {
	if len(in) == 0 {
		return ""
	}
	if m := in[0]; m.Answer != nil {
		return fmt.Sprintf(": answer %d.%d %v settlement %+v", m.Answer.ID, m.Answer.Round, idsOf(m.Answer), m.Answer.Settlement)
	}
	n := in[0].Notice
	return fmt.Sprintf(": notice %d about %s quorum %d fact %+v %s", n.Kind, n.About, n.QuorumID, n.Fact, n.Reason)
}

func describeReplica(r *replica) string {
	s := fmt.Sprintf("%s up=%v conn=%v at %d/%d stand=%v ask=%v wants=%v prepared=%v",
		r.ID, r.Up, r.Conn, r.Pos().Step, r.Pos().QuorumID, r.Stand(), r.Ask(), r.Wants(), r.prepared())
	if r.In() != nil {
		s += fmt.Sprintf(" in %d.%d%v", r.In().ID, r.In().Round, idsOf(r.In()))
	}
	if r.Join != nil {
		s += fmt.Sprintf(" join #%d kind %d", r.Join.Number, r.Join.Kind)
	}
	return s
}

// report fails the test with the shortest form of v.
func (x *explorer) report(t *testing.T, fresh func() *world, v *violation) {
	t.Helper()
	v = x.shorten(fresh, v)
	t.Errorf("%s", x.describe(fresh, v))
}

func explorerConfig(minReplicas int) quorum.Config {
	c := quorum.DefaultConfig()
	c.MinReplicas, c.JoinTimeout, c.StuckAfter = minReplicas, 3*time.Second, 0
	return c
}
