package worlds

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/tensor"
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

// healer is one rank's checkpoint.Transport: states go from memory to memory, at the
// pace that the world wants. Like the real one it reads the donor's tensors
// themselves, and only while they are served.
type healer struct {
	heals *heals
	url   string

	// staging and fetching are how long a donor takes to begin, and a transfer
	// takes; fails makes every transfer end with an error.
	staging, fetching time.Duration
	fails             bool
	donates           failpoint.Hook // passed for this donor by who reads from it

	// Guarded by the lock of heals.
	dead    bool
	version checkpoint.Version
	save    func() (checkpoint.State, error) // nil: paused
}

// difference is what part of a state changes while it is copied.
const difference = 100

var errDonorGone = errors.New("donor gone")

func (h *heals) healer(name string) *healer {
	t := &healer{heals: h, url: "mem://" + name}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.healers[t.url] = t
	return t
}

func (t *healer) Metadata() string { return t.url }

// Serve lets others read.
func (t *healer) Serve(v checkpoint.Version, save func() (checkpoint.State, error)) error {
	t.heals.mu.Lock()
	defer t.heals.mu.Unlock()
	if t.dead {
		return errDonorGone
	}
	t.version, t.save = v, save
	t.heals.changedLocked()
	return nil
}

// Pause ends that. Reads hold the lock.
func (t *healer) Pause() {
	t.heals.mu.Lock()
	defer t.heals.mu.Unlock()
	t.save = nil
	t.heals.changedLocked()
}

// Fetch takes v in the time of fetching, from a donor that lives and serves it then.
func (t *healer) Fetch(
	ctx context.Context, v checkpoint.Version, donors []string, into *checkpoint.Mirror,
) (map[string]string, error) {
	slow := t.fetching
	for _, url := range donors {
		t.heals.mu.Lock()
		if d := t.heals.mu.healers[url]; d != nil {
			slow = max(slow, d.staging)
		}
		t.heals.mu.Unlock()
	}
	if v != checkpoint.Any && into.Received() > 0 {
		slow /= difference
	}
	t.heals.each(donors, failpoint.SendBefore)
	if err := wait(ctx, slow/2); err != nil {
		return nil, err
	}
	t.heals.each(donors, failpoint.SendDuring)
	failpoint.At(ctx, failpoint.ReceiveDuring)
	if err := wait(ctx, slow-slow/2); err != nil {
		return nil, err
	}
	if t.fails {
		return nil, errors.New("this world lets no heal of this replica succeed")
	}
	for {
		meta, changed, err := t.take(v, donors, into)
		if changed == nil {
			t.heals.each(donors, failpoint.SendAfter)
			return meta, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("no donor has %s: %w", v, context.Cause(ctx))
		}
	}
}

// each passes a point for every donor: all of them send at once.
func (h *heals) each(donors []string, at failpoint.Point) {
	for _, url := range donors {
		h.mu.Lock()
		d := h.mu.healers[url]
		h.mu.Unlock()
		if d != nil {
			d.donates.At(at)
		}
	}
}

// take reads a donor's tensors; if none can be read it returns what is closed when
// that may have changed.
func (t *healer) take(
	v checkpoint.Version, donors []string, into *checkpoint.Mirror,
) (meta map[string]string, changed chan struct{}, err error) {
	t.heals.mu.Lock()
	defer t.heals.mu.Unlock()
	alive := false
	for _, url := range donors {
		d := t.heals.mu.healers[url]
		if d == nil || d.dead {
			continue
		}
		alive = true
		if d.save == nil || v != checkpoint.Any && d.version != v {
			continue
		}
		s, err := d.save()
		if err != nil {
			return nil, nil, err
		}
		return s.Meta, nil, into.Take(v, s)
	}
	if !alive {
		return nil, nil, fmt.Errorf("%w: %w", checkpoint.ErrNoDonor, errDonorGone)
	}
	return nil, t.heals.mu.changed, nil
}

// kill is the end of the process.
func (t *healer) kill() {
	t.heals.mu.Lock()
	defer t.heals.mu.Unlock()
	t.dead, t.save = true, nil
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
	return backoff.Sleep(ctx, d)
}

// stateOf is what a rank registers.
func stateOf(params []float32) checkpoint.State {
	return checkpoint.State{Tensors: map[string]tensor.Tensor{"params": tensor.Of(params)}}
}
