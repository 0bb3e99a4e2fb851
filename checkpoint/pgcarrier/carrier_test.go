package pgcarrier_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/ckpttest"
	"github.com/skerry-ft/skerry/checkpoint/pgcarrier"
	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open() (pg.Backend, error) { return tcp.New(tcp.Options{}), nil }

// watched counts what a carrier moves, and fails on demand.
type watched struct {
	checkpoint.Carrier

	connected, sent, received atomic.Int64 // ends, bytes, bytes
	failAfter                 int64        // bytes sent; 0: never
	failLate                  *watched     // each send, once this one has received what was sent; nil: none
}

type watchedEnd struct {
	checkpoint.CarrierEnd
	w *watched
}

func (w *watched) Offer(secret []byte) (checkpoint.CarrierEnd, string, error) {
	e, offer, err := w.Carrier.Offer(secret)
	if err != nil {
		return nil, "", err
	}
	return watchedEnd{e, w}, offer, nil
}

func (w *watched) Answer(offer string, secret []byte) (checkpoint.CarrierEnd, error) {
	e, err := w.Carrier.Answer(offer, secret)
	if err != nil {
		return nil, err
	}
	return watchedEnd{e, w}, nil
}

func (e watchedEnd) Connect(ctx context.Context) error {
	err := e.CarrierEnd.Connect(ctx)
	if err == nil {
		e.w.connected.Add(1)
	}
	return err
}

func (e watchedEnd) Send(ctx context.Context, tag int, b []byte) error {
	if e.w.failAfter > 0 && e.w.sent.Load() >= e.w.failAfter {
		_ = e.CarrierEnd.Close()
		return errors.New("failed on demand")
	}
	e.w.sent.Add(int64(len(b)))
	if e.w.failLate == nil {
		return e.CarrierEnd.Send(ctx, tag, b)
	}
	before := e.w.failLate.received.Load()
	err := e.CarrierEnd.Send(ctx, tag, b)
	for err == nil && e.w.failLate.received.Load() == before {
		err = backoff.Sleep(ctx, time.Millisecond)
	}
	return errors.Join(err, errors.New("failed after the bytes"))
}

func (e watchedEnd) Receive(ctx context.Context, tag int, into []byte) error {
	err := e.CarrierEnd.Receive(ctx, tag, into)
	if err == nil {
		e.w.received.Add(int64(len(into)))
	}
	return err
}

func watch(t testing.TB, open func() (pg.Backend, error)) *watched {
	t.Helper()
	c, err := pgcarrier.New(pgcarrier.Config{Open: open})
	if err != nil {
		t.Fatal(err)
	}
	return &watched{Carrier: c}
}

func TestConforms(t *testing.T) {
	t.Parallel()
	ckpttest.Run(t, func(t *testing.T, n int) []checkpoint.Transport {
		var ts []checkpoint.Transport
		for range n {
			ts = append(ts, ckpttest.Running(t, checkpoint.HTTPConfig{
				ChunkBytes: 16 << 10, Token: []byte("a token of the suite"), Carrier: watch(t, open),
			}))
		}
		return ts
	})
}

// model is a state of chunks of 64 KiB, of tensors that do not end where those do.
func model(fill float32) checkpoint.State {
	s := checkpoint.State{Tensors: map[string]tensor.Tensor{}}
	for i := range 9 {
		x := make([]float32, 100_003)
		for k := range x {
			x[k] = fill + float32(k%97)
		}
		s.Tensors[fmt.Sprint("layer", i)] = tensor.Of(x)
	}
	return s
}

const chunk = 64 << 10

// serve makes donors of s, each with a carrier, and a target.
func serve(t *testing.T, s checkpoint.State, token string, carriers ...*watched) (target *checkpoint.HTTP, from []string) {
	t.Helper()
	cfg := checkpoint.HTTPConfig{ChunkBytes: chunk, Token: []byte(token), Streams: 1}
	for _, c := range carriers[1:] {
		cfg.Carrier = nil
		if c != nil {
			cfg.Carrier = c
		}
		d := ckpttest.Running(t, cfg)
		if err := d.Serve("v", ckpttest.Saves(s)); err != nil {
			t.Fatal(err)
		}
		from = append(from, d.Metadata())
	}
	cfg.Carrier = carriers[0]
	return ckpttest.Running(t, cfg), from
}

// fetch fetches states into a mirror until the target's carrier has moved some of one, if
// it ever will, and checks them all.
func fetch(t *testing.T, target *checkpoint.HTTP, from []string, direct bool, done func() bool) {
	t.Helper()
	testkit.Eventually(t, "the carrier has moved some of a state", func() bool {
		into := model(-7)
		m, err := checkpoint.NewMirror(into, checkpoint.MirrorOptions{Overwrite: direct})
		if err != nil {
			t.Fatal(err)
		}
		m.SetDirect(direct)
		if _, err := target.Fetch(t.Context(), "v", from, m); err != nil {
			t.Fatal(err)
		}
		if err := m.Install("v"); err != nil {
			t.Fatal(err)
		}
		ckpttest.Equal(t, into, model(5))
		return done()
	})
}

// Chunks come by the group, from two donors, into the tensors and beside them; in a
// quorum with a token and without one.
func TestBytesComeByTheGroup(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "the quorum's token"} {
		for _, direct := range []bool{false, true} {
			t.Run(fmt.Sprintf("token=%t,direct=%t", token != "", direct), func(t *testing.T) {
				t.Parallel()
				own, a, b := watch(t, open), watch(t, open), watch(t, open)
				target, from := serve(t, model(5), token, own, a, b)
				fetch(t, target, from, direct, func() bool { return a.sent.Load() > chunk && b.sent.Load() > chunk })
				if got, sent := own.received.Load(), a.sent.Load()+b.sent.Load(); got == 0 || got > sent {
					t.Errorf("%d bytes were received, %d sent", got, sent)
				}
			})
		}
	}
}

// Where one side has no carrier, cannot open its backend, or loses its group after some
// chunks, the state comes all the same.
func TestComesByHTTPOtherwise(t *testing.T) {
	t.Parallel()
	closed := func() (pg.Backend, error) { return nil, errors.New("no backend") }
	always := func() bool { return true }
	t.Run("a donor without", func(t *testing.T) {
		t.Parallel()
		target, from := serve(t, model(5), "", watch(t, open), nil)
		fetch(t, target, from, true, always)
	})
	t.Run("a donor that cannot", func(t *testing.T) {
		t.Parallel()
		target, from := serve(t, model(5), "", watch(t, open), watch(t, closed))
		fetch(t, target, from, true, always)
	})
	t.Run("a target that cannot", func(t *testing.T) {
		t.Parallel()
		target, from := serve(t, model(5), "", watch(t, closed), watch(t, open))
		fetch(t, target, from, true, always)
	})
	t.Run("a group that breaks", func(t *testing.T) {
		t.Parallel()
		own, d := watch(t, open), watch(t, open)
		d.failAfter = 4 * chunk
		target, from := serve(t, model(5), "", own, d)
		fetch(t, target, from, true, func() bool { return own.received.Load() >= d.failAfter })
	})
	t.Run("a group of many streams that breaks", func(t *testing.T) {
		t.Parallel()
		own, d := watch(t, open), watch(t, open)
		d.failAfter = 4 * chunk
		cfg := checkpoint.HTTPConfig{ChunkBytes: chunk, Streams: 6, Carrier: d}
		donor := ckpttest.Running(t, cfg)
		if err := donor.Serve("v", ckpttest.Saves(model(5))); err != nil {
			t.Fatal(err)
		}
		cfg.Carrier = own
		fetch(t, ckpttest.Running(t, cfg), []string{donor.Metadata()}, false, func() bool { return d.sent.Load() >= d.failAfter })
	})
	t.Run("responses that end badly behind all bytes", func(t *testing.T) {
		t.Parallel()
		own, d := watch(t, open), watch(t, open)
		d.failLate = own
		target, from := serve(t, model(5), "", own, d, nil)
		fetch(t, target, from, false, func() bool { return own.received.Load() > 0 })
	})
	t.Run("a donor that dies", func(t *testing.T) {
		t.Parallel()
		own, d := watch(t, open), watch(t, open)
		d.failAfter = 4 * chunk
		target, from := serve(t, model(5), "", own, d, watch(t, open))
		fetch(t, target, from, false, func() bool { return own.received.Load() >= d.failAfter })
	})
}

// An end that nobody meets ends with its ctx, one whose calls are under way with Close.
func TestEndsEnd(t *testing.T) {
	t.Parallel()
	c := watch(t, open).Carrier
	alone, _, err := c.Offer([]byte("a secret of some length"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := alone.Connect(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("connect with nobody: %v, want a deadline", err)
	}
	if err := alone.Close(); err != nil {
		t.Error(err)
	}
	a, offer, err := c.Offer([]byte("a secret of some length"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Answer(offer, []byte("a secret of some length"))
	if err != nil {
		t.Fatal(err)
	}
	connected := make(chan error, 1)
	go func() { connected <- a.Connect(t.Context()) }()
	if err := errors.Join(b.Connect(t.Context()), <-connected); err != nil {
		t.Fatal(err)
	}
	received := make(chan error, 1)
	go func() { received <- b.Receive(t.Context(), 1, make([]byte, 10)) }()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := <-received; err == nil {
		t.Error("a receive from an end that has closed has succeeded")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// Another secret, and an offer that is none, meet nobody.
func TestStrangersMeetNobody(t *testing.T) {
	t.Parallel()
	c := watch(t, open).Carrier
	for _, offer := range []string{"", "nothing", "127.0.0.1", ":123", "\x00\x00:1"} {
		if e, err := c.Answer(offer, []byte("secret of a stranger")); err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if err := e.Connect(ctx); err == nil {
				t.Errorf("offer %q: connected", offer)
			}
			cancel()
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	a, offer, err := c.Offer([]byte("a secret of some length"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := c.Answer(offer, []byte("another secret altogether"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	connected := make(chan error, 1)
	go func() { connected <- a.Connect(ctx) }()
	if err := b.Connect(ctx); err == nil {
		t.Error("an end with another secret is connected")
	}
	if err := <-connected; err == nil {
		t.Error("it has met the donor's end")
	}
}

func TestConfigRefused(t *testing.T) {
	t.Parallel()
	if _, err := pgcarrier.New(pgcarrier.Config{}); err == nil {
		t.Error("a carrier without Open")
	}
	if _, err := pgcarrier.New(pgcarrier.Config{Open: open, Timeout: -1}); err == nil {
		t.Error("a carrier with a negative Timeout")
	}
}
