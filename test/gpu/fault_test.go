package gpu

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/nccl"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/tensor"
)

// bound is how soon everything that an abort or a death ends must have ended.
const bound = 20 * time.Second

// notice is how long ranks wait for the library to notice that a peer is gone,
// before they are told, as the manager tells its group.
func (r *rank) notice() time.Duration {
	if r.Full {
		return bound / 2
	}
	return time.Second
}

// A flood is all-reduces of one large tensor, one behind the other, of which
// something is to hit the middle.
type flood struct {
	bytes int
	buf   *nccl.Buffer // the tensor's
	works []*pg.Work
}

// begin starts them, and returns once every rank has seen the first one done;
// the others are under way.
func (r *rank) begin(ctx context.Context, g *pg.Group) (flood, error) {
	x, buf, deep, err := r.large()
	if err != nil {
		return flood{}, err
	}
	f := flood{bytes: x.NumBytes(), buf: buf}
	for range deep {
		f.works = append(f.works, g.Submit(&pg.Op{
			Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Reduce: tensor.Max,
		}))
	}
	if err := f.works[0].Wait(ctx); err != nil {
		return f, fmt.Errorf("before anything was wrong: %w", err)
	}
	return f, r.meet(ctx, "flood")
}

// end waits until all have ended, and says how many ended with an error.
func (f flood) end(ctx context.Context) (failed int, last error) {
	for _, w := range f.works {
		if err := w.Wait(ctx); err != nil {
			failed, last = failed+1, err
		}
	}
	return failed, last
}

// endWithout is end when a peer has gone; it also says how that became known.
func (r *rank) endWithout(ctx context.Context, g *pg.Group, f flood) (failed int, how string, last error) {
	timer := time.AfterFunc(r.notice(), func() { g.Abort(errors.New("a member is lost")) })
	failed, last = f.end(ctx)
	if timer.Stop() {
		return failed, "noticed by the library", last
	}
	return failed, fmt.Sprintf("not noticed by the library in %v, then told", r.notice()), last
}

// sizes of the flood: deep enough that it is not over when it is hit.
func (r *rank) floodSize() (bytes, deep int) {
	switch {
	case r.Full && r.Scenario == "abort-few":
		return 1 << 30, 3
	case r.Full:
		return 1 << 30, 64
	}
	return 16 << 20, 400
}

// large is a tensor for a flood.
func (r *rank) large() (tensor.Tensor, *nccl.Buffer, int, error) {
	bytes, deep := r.floodSize()
	x, buf, err := r.tensor(tensor.Float32, bytes/4)
	if err != nil {
		return x, nil, 0, err
	}
	in := make([]float32, bytes/4)
	for i := range in {
		in[i] = grain(i, r.Rank)
	}
	if err := buf.CopyFromHost(0, tensor.Of(in).Bytes()); err != nil {
		return x, nil, 0, errors.Join(err, buf.Close())
	}
	return x, buf, deep, nil
}

// grain is element i of a flood at a rank: the last rank's is the greatest. It is
// exact in a float32.
func grain(i, rank int) float32 { return float32(i%4093*64 + rank) }

// intact tells whether the memory of a flood holds the maximum over all ranks, as
// it does after the first op: what is cut short later writes nothing else.
func (f flood) intact(world int) error {
	out := tensor.New(tensor.Float32, f.bytes/4)
	if err := f.buf.CopyToHost(out.Bytes(), 0); err != nil {
		return fmt.Errorf("read our memory after the flood: %w", err)
	}
	for i, v := range tensor.Slice[float32](out) {
		if want := grain(i, world-1); v != want {
			return fmt.Errorf("after the flood element %d of %d is %v, want %v", i, out.Len(), v, want)
		}
	}
	return nil
}

// right checks that a small all-reduce among world ranks works, on a tensor of
// this process.
func (r *rank) right(ctx context.Context, g *pg.Group) error {
	const n = 1000
	x, buf, err := r.tensor(tensor.Int32, n)
	if err != nil {
		return err
	}
	in := make([]int32, n)
	for i := range in {
		in[i] = int32(i + 1)
	}
	if err := buf.CopyFromHost(0, tensor.Of(in).Bytes()); err != nil {
		return errors.Join(err, buf.Close())
	}
	r.held = append(r.held, buf) // a Baby's child may have it open
	if err := g.AllReduce(ctx, x, tensor.Sum); err != nil {
		return err
	}
	out := tensor.New(tensor.Int32, n)
	if err := buf.CopyToHost(out.Bytes(), 0); err != nil {
		return err
	}
	for i, v := range tensor.Slice[int32](out) {
		if want := int32((i + 1) * g.Size()); v != want {
			return fmt.Errorf("all-reduce: element %d is %d, want %d", i, v, want)
		}
	}
	return nil
}

// abort ends a flood in its middle, at rank 0; the next quorum is right.
func (r *rank) abort(ctx context.Context) error {
	g, err := r.group(ctx)
	if err != nil {
		return err
	}
	f, err := r.begin(ctx, g)
	if err != nil {
		return err
	}
	began := time.Now()
	if r.Rank == 0 {
		g.Abort(errors.New("the test has had enough"))
	}
	failed, last := f.end(ctx)
	took := time.Since(began)
	switch {
	case failed == 0:
		return fmt.Errorf("all %d ops of %d bytes had ended before the abort: the test shows nothing", len(f.works), f.bytes)
	case errors.Is(last, nccl.ErrAbandoned):
		return fmt.Errorf("after the abort: %w", last)
	case took > bound:
		return fmt.Errorf("the abort took %v, want at most %v", took, bound)
	}
	r.say(record{What: "abort", Bytes: int64(f.bytes), Count: failed, Seconds: took.Seconds()})
	if err := f.intact(r.WorldSize); err != nil {
		return err
	}
	return r.again(ctx, g, f.buf)
}

// again makes the next quorum and checks it.
func (r *rank) again(ctx context.Context, g *pg.Group, held *nccl.Buffer) error {
	began := time.Now()
	if err := r.configure(ctx, g); err != nil {
		return fmt.Errorf("next quorum: %w", err)
	}
	r.say(record{What: "configure", Seconds: time.Since(began).Seconds()})
	if err := r.right(ctx, g); err != nil {
		return fmt.Errorf("in the next quorum: %w", err)
	}
	r.held = append(r.held, held)
	return errors.Join(r.meet(ctx, "end"), r.leave(g))
}

// die is killed in the middle of a flood, at the last rank; the others get an
// error in time, and go on without it.
func (r *rank) die(ctx context.Context) error {
	g, err := r.group(ctx)
	if err != nil {
		return err
	}
	f, err := r.begin(ctx, g)
	if err != nil {
		return err
	}
	if r.Rank == r.WorldSize-1 {
		return syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	}
	began := time.Now()
	failed, how, last := r.endWithout(ctx, g, f)
	took := time.Since(began)
	if failed == 0 || took > bound || errors.Is(last, nccl.ErrAbandoned) {
		return fmt.Errorf("%d ops failed in %v, want 1 or more in %v: %w", failed, took, bound, last)
	}
	r.say(record{What: "death", Value: how, Count: failed, Seconds: took.Seconds()})
	if err := f.intact(r.WorldSize); err != nil {
		return err
	}
	r.WorldSize--
	return r.again(ctx, g, f.buf)
}

// baby kills the child of the last rank in the middle of a flood. Its parent's
// memory is as it was, and the next quorum, with new children, is right.
func (r *rank) baby(ctx context.Context) error {
	b, err := baby.New(r.babyOptions(nil))
	if err != nil {
		return err
	}
	g := pg.NewGroup(b)
	if err := r.configure(ctx, g); err != nil {
		return err
	}
	if err := r.right(ctx, g); err != nil {
		return fmt.Errorf("before anything was wrong: %w", err)
	}
	f, err := r.begin(ctx, g)
	if err != nil {
		return err
	}
	began := time.Now()
	culprit := r.Rank == r.WorldSize-1
	if culprit {
		pid, ok := b.Child()
		if !ok {
			return errors.New("no child")
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return err
		}
	}
	failed, how, last := r.endWithout(ctx, g, f)
	took := time.Since(began)
	if failed == 0 || took > bound {
		return fmt.Errorf("%d ops failed in %v, want 1 or more in %v: %w", failed, took, bound, last)
	}
	if _, ok := errors.AsType[*baby.ChildError](last); culprit && !ok {
		return fmt.Errorf("after the kill: %w, want a ChildError", last)
	}
	r.say(record{What: "kill", Value: how, Bytes: int64(f.bytes), Count: failed, Seconds: took.Seconds()})
	if err := f.intact(r.WorldSize); err != nil {
		return err
	}
	return r.again(ctx, g, f.buf)
}

// An abort in the middle of large all-reduces ends them all, on every rank, in
// time; the next quorum works.
func TestAbort(t *testing.T) {
	const title = "abort in the middle of a large all-reduce"
	results.follow(t, title)
	o := start(t, "abort")
	o.succeed(t)
	o.tell(t, "abort", title)
}

// With few ops queued, an abort is through sooner: each that is queued must begin before it
// can end.
func TestAbortFew(t *testing.T) {
	if !*real {
		t.Skip("the fakes' ops take no time: TestAbort shows the same")
	}
	const title = "the same with few ops queued"
	results.follow(t, title)
	o := start(t, "abort-few")
	o.succeed(t)
	o.tell(t, "abort", title)
}

// idle is killed, at the last rank, with no op under way; the others go on without it.
func (r *rank) idle(ctx context.Context) error {
	g, err := r.group(ctx)
	if err != nil {
		return err
	}
	if err := r.right(ctx, g); err != nil {
		return err
	}
	if err := r.meet(ctx, "idle"); err != nil {
		return err
	}
	if r.Rank == r.WorldSize-1 {
		return syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	}
	began := time.Now()
	g.Abort(errors.New("a member is lost"))
	r.WorldSize--
	if err := r.configure(ctx, g); err != nil {
		return fmt.Errorf("next quorum: %w", err)
	}
	r.say(record{What: "idle", Seconds: time.Since(began).Seconds()})
	if err := r.right(ctx, g); err != nil {
		return err
	}
	return r.leave(g)
}

// So do those of a rank that is killed between two ops.
func TestIdleDeath(t *testing.T) {
	const title = "SIGKILL of a rank with no op under way"
	results.follow(t, title)
	o := start(t, "idle")
	last := *ranks - 1
	if !killed(o.errs[last]) {
		t.Errorf("rank %d ended with %v, want SIGKILL", last, o.errs[last])
	}
	o.errs[last] = nil
	o.succeed(t)
	worst := 0.0
	for _, rec := range o.records {
		worst = max(worst, rec.Seconds)
	}
	text := fmt.Sprintf("from the abort to the next quorum %.0f ms", 1000*worst)
	t.Log(text)
	results.passed(title, text)
}

// So does the death of a rank.
func TestDeath(t *testing.T) {
	const title = "SIGKILL of a rank in the middle of a large all-reduce"
	results.follow(t, title)
	o := start(t, "die")
	last := *ranks - 1
	if !killed(o.errs[last]) {
		t.Errorf("rank %d ended with %v, want SIGKILL", last, o.errs[last])
	}
	o.errs[last] = nil
	o.succeed(t)
	o.tell(t, "death", title)
}

// So does the death of a Baby's child, of which the trainer sees an error.
func TestBaby(t *testing.T) {
	const title = "SIGKILL of a Baby's child in the middle of a large all-reduce"
	results.follow(t, title)
	o := start(t, "baby")
	o.succeed(t)
	o.tell(t, "kill", title)
}

// tell logs the slowest rank's record of something, for the report.
func (o outcome) tell(t *testing.T, what, title string) {
	t.Helper()
	var worst, configure *record
	for i := range o.records {
		rec := &o.records[i]
		if rec.What == what && (worst == nil || rec.Seconds > worst.Seconds) {
			worst = rec
		}
		if rec.What == "configure" && (configure == nil || rec.Seconds > configure.Seconds) {
			configure = rec
		}
	}
	if worst == nil || configure == nil {
		t.Fatalf("no record of %s", what)
	}
	text := fmt.Sprintf("%d pending ops ended within %.0f ms, next quorum configured in %.0f ms",
		worst.Count, 1000*worst.Seconds, 1000*configure.Seconds)
	if worst.Value != "" {
		text += " (" + worst.Value + ")"
	}
	t.Log(text)
	results.passed(title, text)
}
