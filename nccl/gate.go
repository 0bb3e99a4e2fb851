package nccl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/skerry-ft/skerry/pg"
)

// gateBytes is the page-locked memory of a device's gates, and gateStride what
// one of them takes: a cache line, so that opening one disturbs no other.
const (
	gateBytes  = 64 << 10
	gateStride = 64
)

// gates let streams of a device wait for Works. A gate is a number that only
// counts up: a stream that is late finds more than it waits for, and goes on.
type gates struct {
	mu struct {
		sync.Mutex

		memory []byte
		free   [][]byte // parts of memory at which no stream waits
	}
}

// Follow makes s wait on the device until w is done, whatever backend runs it: in
// a Baby, on the CPU, or here. The host goes on at once. When w fails the wait
// ends, too: look at its error before you use what s makes of the result. S must
// be a stream of this device.
//
// What opens the gate is this process, so that a child that dies in the middle
// of an op cannot keep s waiting, as an event of the child could: w fails, and s
// goes on. For an op of a Backend of this process, WaitStream is quicker.
//
// A driver without Gates, and more than gateBytes/gateStride waits at once, make
// Follow itself wait until w is done or ctx ends.
func (d *Device) Follow(ctx context.Context, s Stream, w *pg.Work) error {
	if w.Finished() {
		return nil
	}
	g, ok := d.driver.(Gates)
	if !ok {
		return waitOnly(ctx, w)
	}
	b, err := d.gates.take(d)
	if err != nil {
		return err
	}
	if b == nil {
		return waitOnly(ctx, w)
	}
	next := atomic.LoadUint32(number(b)) + 1
	if err := d.Do(func() error { return g.WaitGate(s, b, next) }); err != nil {
		d.gates.give(b)
		if errors.Is(err, pg.ErrUnsupported) {
			return waitOnly(ctx, w)
		}
		return fmt.Errorf("make a stream wait for %v: %w", w.Op().Kind, err)
	}
	w.Then(func(error) {
		atomic.StoreUint32(number(b), next)
		d.gates.give(b)
	})
	return nil
}

// waitOnly waits on the host. How w ended is the caller's to look at.
func waitOnly(ctx context.Context, w *pg.Work) error {
	select {
	case <-w.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func number(b []byte) *uint32 { return (*uint32)(unsafe.Pointer(unsafe.SliceData(b))) }

// take gives a gate that is open, or nil if none is.
func (g *gates) take(d *Device) (gate []byte, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.memory == nil {
		g.mu.memory, err = doing(d, func() ([]byte, error) { return d.driver.AllocHost(gateBytes) })
		if err != nil {
			return nil, fmt.Errorf("memory for gates: %w", err)
		}
		clear(g.mu.memory)
		g.mu.free = slices.Collect(slices.Chunk(g.mu.memory, gateStride))
	}
	n := len(g.mu.free)
	if n == 0 {
		return nil, nil
	}
	gate = g.mu.free[n-1]
	g.mu.free = g.mu.free[:n-1]
	return gate, nil
}

func (g *gates) give(gate []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.free = append(g.mu.free, gate)
}

// close frees the memory, unless a stream still waits at a gate of it.
func (g *gates) close(d *Device) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.memory == nil {
		return nil
	}
	if shut := gateBytes/gateStride - len(g.mu.free); shut > 0 {
		return fmt.Errorf("nccl: close of device %d: streams still follow %d ops", d.index, shut)
	}
	b := g.mu.memory
	g.mu.memory, g.mu.free = nil, nil
	return d.Do(func() error { return d.driver.FreeHost(b) })
}
