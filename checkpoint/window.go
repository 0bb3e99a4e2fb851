package checkpoint

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/internal/monitor"
)

// errClosed is what calls on a closed transport return.
var errClosed = errors.New("checkpoint: transport is closed")

// Any is the version of a reader that takes chunks of whichever state a donor
// is at, and different ones for different chunks.
const Any Version = "*"

// window is the time in which a donor's tensors do not change: readers take
// chunks straight from them. Each holds the window for one chunk at most, in
// memory alone, so that the owner, who shuts it, waits no longer than that. Safe
// for concurrent use.
//
//	open(v) ── hold, release, hold, release … ── shut ── (the owner writes) ── open(v+1)
type window struct {
	slots chan struct{} // one for each reader that holds: they share the cores with the owner
	spare chan struct{} // one for all readers of Any: they leave the other cores to the owner

	mu struct {
		monitor.Monitor // that current has changed, or one that is shut is no longer held

		current *opening // nil: shut
		closed  bool
	}
}

// opening is the window from one open to the next shut.
type opening struct {
	version Version
	save    func() (State, error)

	build sync.Once // of the fields below, by the first reader
	view  *safetensors.View
	head  []byte
	err   error

	holds int // guarded by window.mu
}

func newWindow() *window {
	return &window{slots: make(chan struct{}, max(2, runtime.GOMAXPROCS(0))), spare: make(chan struct{}, 1)}
}

// open begins a time in which what save returns does not change. Save is called
// at the first read, if there is one, and only before shut returns.
func (w *window) open(v Version, save func() (State, error)) error {
	w.shut()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed {
		return errClosed
	}
	w.setLocked(&opening{version: v, save: save})
	return nil
}

// shut ends it, and returns once nothing is being read.
func (w *window) shut() {
	w.mu.Lock()
	o := w.mu.current
	if o == nil {
		w.mu.Unlock()
		return
	}
	w.setLocked(nil)
	w.mu.Unlock()
	_ = w.mu.Await(context.Background(), 0, func() bool { return o.holds == 0 }) // it ends in no other way
}

// close shuts it for good.
func (w *window) close() {
	w.mu.Lock()
	w.mu.closed = true
	w.mu.Broadcast() // wakes the readers that wait
	w.mu.Unlock()
	w.shut()
}

func (w *window) setLocked(o *opening) {
	w.mu.current = o
	w.mu.Broadcast()
}

// hold waits for the window of v and keeps it open until release. It says what
// is there instead when ctx ends, or otherHold after another version was seen.
func (w *window) hold(ctx context.Context, v Version) (*opening, error) {
	var other <-chan time.Time
	for {
		o, has, changed, err := w.look(ctx, v)
		if o != nil || err != nil {
			return o, err
		}
		if has == "" {
			other = nil
		} else if other == nil {
			other = time.After(otherHold)
		}
		select {
		case <-changed:
			continue
		case <-other:
		case <-ctx.Done():
		}
		if has != "" {
			return nil, refuse(http.StatusConflict, "this donor serves %q, not %q", string(has), string(v))
		}
		return nil, refuse(http.StatusTooEarly, "%q cannot be read at the moment", string(v))
	}
}

// look returns the opening, held, if it is of v; else what is there, and what is
// closed when that changes.
func (w *window) look(ctx context.Context, v Version) (o *opening, other Version, changed <-chan struct{}, err error) {
	slots := w.slotsFor(v)
	select {
	case slots <- struct{}{}:
	default:
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil, "", nil, refuse(http.StatusTooEarly, "too many readers")
		}
	}
	w.mu.Lock()
	cur := w.mu.current
	switch {
	case w.mu.closed:
		err = errClosed
	case cur == nil:
		changed = w.mu.Changed()
	case v != Any && cur.version != v:
		other, changed = cur.version, w.mu.Changed()
	default:
		o = cur
		o.holds++
	}
	w.mu.Unlock()
	if o == nil {
		<-slots
		return nil, other, changed, err
	}
	o.build.Do(o.lay)
	if o.err != nil {
		w.release(o, v)
		return nil, "", nil, o.err
	}
	return o, "", nil, nil
}

// lay asks the owner for its tensors.
func (o *opening) lay() {
	s, err := o.save()
	if err == nil {
		o.view, err = safetensors.ViewOf(s)
	}
	if err == nil {
		o.head, err = o.view.Header()
	}
	o.err = err
}

func (w *window) slotsFor(v Version) chan struct{} {
	if v == Any {
		return w.spare
	}
	return w.slots
}

// release ends what hold of v began.
func (w *window) release(o *opening, v Version) {
	<-w.slotsFor(v)
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.holds--; o.holds == 0 && o != w.mu.current {
		w.mu.Broadcast()
	}
}

// copyOut copies bytes [from, from+len(dst)) of the data section, and gives
// their mark.
func (o *opening) copyOut(dst []byte, from int64) mark {
	var sum running
	for _, part := range safetensors.Pieces(&o.view.Layout, o.view.Bytes, from, from+int64(len(dst))) {
		for step := range slices.Chunk(part, copyStep) {
			n := copy(dst, step)
			sum.add(dst[:n])
			dst = dst[n:]
			runtime.Gosched() // see copyStep
		}
	}
	return sum.mark()
}
