package many

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/skerry-ft/skerry/internal/sim/checker"
	"github.com/skerry-ft/skerry/internal/sim/timeline"
	"github.com/skerry-ft/skerry/quorum"
)

// epoch is when the clocks of a world begin.
var epoch = time.UnixMilli(1_764_000_000_000)

// world is a lighthouse, replicas, and what happens to them.
type world struct {
	o     Options
	c     Costs
	rng   *rand.Rand
	queue timeline.Queue[func()]
	now   int64
	err   error // the first rule that was broken

	ledger     quorum.Ledger
	lighthouse *lighthouse // nil: none leads
	check      *checker.Checker
	written    int

	byID      map[quorum.ReplicaID]*replica
	called    map[quorum.ReplicaID]quorum.ReplicaID // whom an accusation meant by a name
	all       []*replica                            // that live
	exchanges map[exchangeKey]*exchange
	group     *group // the newest that was formed
	store     int64  // until when the primary's store is at work
	res       Result
}

func newWorld(o Options, c Costs) *world {
	w := &world{
		o: o, c: c, rng: rand.New(rand.NewPCG(o.Seed, 0)), byID: map[quorum.ReplicaID]*replica{}, called: map[quorum.ReplicaID]quorum.ReplicaID{},
		exchanges: map[exchangeKey]*exchange{}, ledger: quorum.NewLedger("sim", "j", epoch.UnixMilli()), res: Result{options: o, costs: c},
	}
	w.check = checker.New(checker.World{
		Fail:      func(rule, format string, args ...any) { w.fail(rule+": "+format, args...) },
		Clock:     func() int64 { return w.now },
		Alive:     func(id string) bool { return w.byID[quorum.ReplicaID(id)] != nil },
		BeatEvery: beatEvery,
	})
	return w
}

// fail keeps the first rule that was broken.
func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %v: "+format, append([]any{time.Duration(w.now)}, args...)...)
	}
}

// at does something at a time; after, in a while.
func (w *world) at(t int64, do func())            { w.queue.Push(max(t, w.now), do) }
func (w *world) after(d time.Duration, do func()) { w.at(w.now+int64(d), do) }

// between draws a duration.
func (w *world) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)+1))
}

// delay draws how long a message is under way.
func (w *world) delay() time.Duration { return w.between(w.c.Latency, 2*w.c.Latency) }

// clock is the time for the rules.
func (w *world) clock() time.Time { return epoch.Add(time.Duration(w.now)) }

// since is the same for the checkers.
func (w *world) since() time.Duration { return time.Duration(w.now) }

// run lets events happen until an end.
func (w *world) run(ctx context.Context, end time.Duration) {
	for w.err == nil {
		if ctx.Err() != nil {
			w.fail("%w", context.Cause(ctx))
			return
		}
		at, ok := w.queue.Next()
		if !ok || at > int64(end) {
			return
		}
		var do func()
		w.now, do = w.queue.Pop()
		do()
	}
}

// sent is a message as it arrives, and how long it is.
func sent[M proto.Message](w *world, p M) (M, int) {
	text, err := proto.Marshal(p)
	came := p.ProtoReflect().New().Interface()
	if err == nil {
		err = proto.Unmarshal(text, came)
	}
	if err != nil {
		w.fail("wire: %v", err)
	}
	return came.(M), len(text)
}
