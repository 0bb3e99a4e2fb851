package pg_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// conform checks a decorator that is not to be noticed, over backends in memory.
func conform(t *testing.T, wrap func(pg.Backend) pg.Backend) {
	h := pgtest.MemoryHarness(wrap)
	h.DTypes = []tensor.DType{tensor.Float32, tensor.Int64} // the backend's own test has them all
	pgtest.RunWith(t, h)
}

// TestTimeoutConforms: a Timeout that is never reached is not there.
func TestTimeoutConforms(t *testing.T) {
	conform(t, func(b pg.Backend) pg.Backend { return pg.NewTimeout(b, pgtest.Bound) })
}

// TestSwallow: a failed op completes with zeroed outputs and without an error;
// so do later ones, which are not submitted; Err tells; Configure mends.
func TestSwallow(t *testing.T) {
	w := pgtest.MemoryWorld(t, 2, func(b pg.Backend) pg.Backend { return pg.NewSwallow(b) })
	cause := errors.New("cut")
	x := []float32{1, 2}
	pending := w.Groups[0].AllReduceAsync(tensor.Of(x), tensor.Sum)
	w.Groups[0].Abort(cause)
	if err := pending.Wait(t.Context()); err != nil || !slices.Equal(x, []float32{0, 0}) {
		t.Errorf("failed op: %v, output %v; want nil and zeros", err, x)
	}
	first := w.Groups[0].Err()
	if !errors.Is(first, cause) {
		t.Errorf("Err is %v, want %v", first, cause)
	}
	in, out := []float32{1, 2}, []float32{7, 7}
	op := &pg.Op{Kind: pg.KindAllReduce, In: []tensor.Tensor{tensor.Of(in)}, Out: []tensor.Tensor{tensor.Of(out)}}
	if err := w.Groups[0].Do(t.Context(), op); err != nil || !slices.Equal(out, []float32{0, 0}) || in[0] != 1 {
		t.Errorf("skipped op: %v, input %v, output %v; want nil, untouched, zeros", err, in, out)
	}
	if err := w.Groups[1].Broadcast(t.Context(), tensor.Of(x), 0); err != nil || w.Groups[1].Err() == nil {
		t.Errorf("op of the peer: %v, Err %v; want nil and an error", err, w.Groups[1].Err())
	}
	if err := w.Groups[0].Do(t.Context(), &pg.Op{Kind: pg.KindBallot}); !errors.Is(err, pg.ErrAborted) {
		t.Errorf("ballot: %v, want its error", err)
	}
	w.Configure(w.Members...)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		x := []float32{3}
		if err := g.AllReduce(ctx, tensor.Of(x), tensor.Sum); err != nil || x[0] != 6 {
			t.Errorf("after Configure: sum %v, %v", x, err)
		}
		if err := g.AllReduce(ctx, tensor.Of([]int32{1}), tensor.Avg); !errors.Is(err, pg.ErrInvalidOp) {
			t.Errorf("invalid op: %v, want ErrInvalidOp", err)
		}
		return g.Err()
	})
}

// stubborn ignores the deadlines of ops, as a library behind cgo might.
type stubborn struct{ pg.Backend }

func (s stubborn) Unwrap() pg.Backend { return s.Backend }
func (s stubborn) Submit(op *pg.Op) *pg.Work {
	op.Deadline = time.Now().Add(time.Hour)
	return s.Backend.Submit(op)
}

// TestTimeout: an op that a peer never calls ends at the limit, even if the
// backend keeps no deadlines, and so does a Configure that nobody joins.
func TestTimeout(t *testing.T) {
	synctest.Test(t, opsEndAtTheLimit)
}

func opsEndAtTheLimit(t *testing.T) {
	const limit = 50 * time.Millisecond
	net := pgtest.NewMemory()
	w := pgtest.NewWorld(t, "timeout")
	a := w.Join("a", pg.NewTimeout(stubborn{net.Backend()}, limit))
	b := w.Join("b", net.Backend())
	w.Configure(a, b)
	if err := w.Groups[0].Barrier(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("op without a peer: %v, want DeadlineExceeded", err)
	}
	if !w.Groups[1].Errored() {
		t.Error("the peer was not told")
	}
	w.Next()
	c := w.Config([]pgtest.Member{a, b}, 0)
	if err := a.Backend.Configure(t.Context(), c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("configure without a peer: %v, want DeadlineExceeded", err)
	}
}

func TestRegistry(t *testing.T) {
	name := "Test-" + rand.Text() // the registry outlives the test
	made := dummy.New()
	open := func(o pg.Options) (pg.Backend, error) {
		if o.Params["fail"] != "" {
			return nil, errors.New(o.Params["fail"])
		}
		return made, nil
	}
	if pg.Available(name) {
		t.Error("available before it is registered")
	}
	if err := pg.Register(name, []string{"cpu"}, open); err != nil {
		t.Fatal(err)
	}
	if err := pg.Register(strings.ToLower(name), nil, open); err == nil {
		t.Error("registered twice")
	}
	if err := pg.Register("", nil, open); err == nil {
		t.Error("registered without a name")
	}
	if !pg.Available(strings.ToUpper(name)) {
		t.Error("not available in capitals")
	}
	if b, err := pg.Open(name, pg.Options{}); err != nil || b != made {
		t.Errorf("opened %v, %v", b, err)
	}
	if _, err := pg.Open(strings.ToLower(name), pg.Options{Params: map[string]string{"fail": "no device"}}); err == nil {
		t.Error("the factory's error was lost")
	}
	if _, err := pg.Open("mpi", pg.Options{}); err == nil {
		t.Error("opened a backend that is not there")
	}
	if !pg.Available("tcp") {
		if err := pg.Register("tcp", []string{"cpu"}, open); err != nil {
			t.Fatal(err)
		}
	}
	if !pg.Available("Gloo") {
		t.Error("gloo does not mean tcp")
	}
	if !slices.ContainsFunc(pg.Drivers(), func(d pg.Driver) bool { return d.Name == "tcp" && d.Devices[0] == "cpu" }) {
		t.Errorf("drivers are %v", pg.Drivers())
	}
}
