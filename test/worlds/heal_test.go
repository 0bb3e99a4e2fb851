package worlds

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/pg"
)

// heals is where the transports of a world find each other.
type heals struct {
	mu struct {
		sync.Mutex

		healers map[string]*healer
		changed chan struct{} // closed and replaced when a copy comes or goes
	}
}

func newHeals() *heals {
	h := &heals{}
	h.mu.healers = make(map[string]*healer)
	h.mu.changed = make(chan struct{})
	return h
}

func (h *heals) changedLocked() {
	close(h.mu.changed)
	h.mu.changed = make(chan struct{})
}

// healer is one rank's checkpoint.Transport: copies in memory, at the pace that the
// world wants. Like the real one it keeps one staged copy, and Disallow drops
// whatever copy is staged.
type healer struct {
	heals *heals
	url   string

	// staging and fetching are how long a copy, and a transfer, take; fails makes
	// every transfer end with an error.
	staging, fetching time.Duration
	fails             bool

	// Guarded by the lock of heals.
	dead    bool
	version checkpoint.Version
	staged  map[string][]byte // nil: nothing
	meta    map[string]string
	writing chan struct{} // holds one token: one Serve at a time
}

var errDonorGone = errors.New("donor gone")

func (h *heals) healer(name string) *healer {
	t := &healer{heals: h, url: "mem://" + name, writing: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.healers[t.url] = t
	return t
}

func (t *healer) Metadata() string { return t.url }

// Serve copies one half of each tensor at once and the other when the time of
// staging is over: a tensor that changes meanwhile is torn.
func (t *healer) Serve(ctx context.Context, v checkpoint.Version, s checkpoint.State) error {
	select {
	case t.writing <- struct{}{}:
		defer func() { <-t.writing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	staged := make(map[string][]byte)
	for name, tensor := range s.Tensors {
		b := make([]byte, len(tensor.Bytes()))
		copy(b[:len(b)/2], tensor.Bytes())
		staged[name] = b
	}
	if err := wait(ctx, t.staging); err != nil {
		return err
	}
	for name, tensor := range s.Tensors {
		b := staged[name]
		copy(b[len(b)/2:], tensor.Bytes()[len(b)/2:])
	}
	t.heals.mu.Lock()
	defer t.heals.mu.Unlock()
	t.version, t.staged, t.meta = v, staged, s.Meta
	t.heals.changedLocked()
	return nil
}

// Disallow drops what is staged when it runs.
func (t *healer) Disallow(context.Context) error {
	t.heals.mu.Lock()
	defer t.heals.mu.Unlock()
	t.staged = nil
	t.heals.changedLocked()
	return nil
}

// Fetch waits until a donor that lives has v, and takes it in the time of fetching.
func (t *healer) Fetch(ctx context.Context, v checkpoint.Version, donors []string, into checkpoint.State) (map[string]string, error) {
	for {
		t.heals.mu.Lock()
		changed := t.heals.mu.changed
		var donor *healer
		alive := false
		for _, url := range donors {
			d := t.heals.mu.healers[url]
			alive = alive || d != nil && !d.dead
			if d != nil && !d.dead && d.staged != nil && d.version == v && donor == nil {
				donor = d
			}
		}
		t.heals.mu.Unlock()
		switch {
		case !alive:
			return nil, fmt.Errorf("%w: %w", checkpoint.ErrNoDonor, errDonorGone)
		case donor != nil:
			meta, err := t.take(ctx, donor, v, into)
			if !errors.Is(err, errDonorGone) {
				return meta, err
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("no donor has %s: %w", v, context.Cause(ctx))
		}
	}
}

// take transfers from one donor, which must hold the copy until the end.
func (t *healer) take(ctx context.Context, donor *healer, v checkpoint.Version, into checkpoint.State) (map[string]string, error) {
	if err := wait(ctx, t.fetching); err != nil {
		return nil, err
	}
	if t.fails {
		return nil, errors.New("this world lets no heal of this replica succeed")
	}
	t.heals.mu.Lock()
	defer t.heals.mu.Unlock()
	if donor.dead || donor.staged == nil || donor.version != v {
		return nil, errDonorGone
	}
	for name, tensor := range into.Tensors {
		b, ok := donor.staged[name]
		if !ok || len(b) != len(tensor.Bytes()) {
			return nil, &checkpoint.MismatchError{Want: []checkpoint.TensorInfo{{Name: name}}}
		}
		copy(tensor.Bytes(), b)
	}
	return donor.meta, nil
}

// kill is the end of the process.
func (t *healer) kill() {
	t.heals.mu.Lock()
	defer t.heals.mu.Unlock()
	t.dead, t.staged = true, nil
	t.heals.changedLocked()
}

// Close ends the transport.
func (t *healer) Close() error {
	t.kill()
	return nil
}

// wait lets d pass, or ends with ctx.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stateOf is what a rank registers.
func stateOf(params []float32) checkpoint.State {
	return checkpoint.State{Tensors: map[string]pg.Tensor{"params": pg.Of(params)}}
}

// staging: a copy of this rank's state is being made.
func (p *proc) staging() bool { return len(p.healer.writing) > 0 }
