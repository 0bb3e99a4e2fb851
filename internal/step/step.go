// Package step has the atomics and the lock of code whose goroutines, or
// processes, wake one another: the same as sync/atomic's and sync's, but a test can
// stop a goroutine at each access.
//
// # Usage
//
// A field is a step.Bool where it was an atomic.Bool; a word of shared memory is a
// [Word32] or [Word64] made of its address. Without a [Hook] an access costs one
// comparison more than sync/atomic's. A test gives each a Hook: package
// steptest has one that puts random delays there, and one that takes a set of
// goroutines through every interleaving of their accesses.
//
// # Concurrency
//
// Like sync/atomic and sync. A Hook is set before any goroutine can come by.
package step

import (
	"sync"
	"sync/atomic"
)

// Hook is told of each access before it happens.
type Hook interface {
	// Access comes before an access of the atomic at x: *atomic.Bool, *atomic.Int64,
	// *atomic.Uint32 or *atomic.Uint64.
	Access(x any)

	// Lock, TryLock and Unlock take the place of the Mutex's own, which a Hook
	// reaches as m.Inner.
	Lock(m *Mutex)
	TryLock(m *Mutex) bool
	Unlock(m *Mutex)

	// Round comes at the head of a loop that turns while another goroutine keeps it
	// waiting. What the loop remembers of earlier rounds matters no more.
	Round()
}

// Round tells h, if there is one.
func Round(h Hook) {
	if h != nil {
		h.Round()
	}
}

// access tells h, if there is one, of an access of the atomic at x.
func access(h Hook, x any) {
	if h != nil {
		h.Access(x)
	}
}

// Bool is an atomic.Bool. The zero value is false.
type Bool struct {
	v atomic.Bool
	h Hook
}

// Watch has h told of accesses, by the address that is returned.
func (b *Bool) Watch(h Hook) any { b.h = h; return &b.v }

func (b *Bool) Load() bool {
	access(b.h, &b.v)
	return b.v.Load()
}

func (b *Bool) Store(v bool) {
	access(b.h, &b.v)
	b.v.Store(v)
}

func (b *Bool) CompareAndSwap(old, v bool) bool {
	access(b.h, &b.v)
	return b.v.CompareAndSwap(old, v)
}

// Int64 is an atomic.Int64. The zero value is 0.
type Int64 struct {
	v atomic.Int64
	h Hook
}

// Watch has h told of accesses, by the address that is returned.
func (n *Int64) Watch(h Hook) any { n.h = h; return &n.v }

func (n *Int64) Load() int64 {
	access(n.h, &n.v)
	return n.v.Load()
}

func (n *Int64) Add(d int64) int64 {
	access(n.h, &n.v)
	return n.v.Add(d)
}

// Uint32 is an atomic.Uint32. The zero value is 0.
type Uint32 struct {
	v atomic.Uint32
	h Hook
}

// Watch has h told of accesses, by the address that is returned.
func (n *Uint32) Watch(h Hook) any { n.h = h; return &n.v }

func (n *Uint32) Load() uint32 {
	access(n.h, &n.v)
	return n.v.Load()
}

func (n *Uint32) CompareAndSwap(old, v uint32) bool {
	access(n.h, &n.v)
	return n.v.CompareAndSwap(old, v)
}

// Uint64 is an atomic.Uint64. The zero value is 0.
type Uint64 struct {
	v atomic.Uint64
	h Hook
}

// Watch has h told of accesses, by the address that is returned.
func (n *Uint64) Watch(h Hook) any { n.h = h; return &n.v }

func (n *Uint64) Load() uint64 {
	access(n.h, &n.v)
	return n.v.Load()
}

func (n *Uint64) Store(v uint64) {
	access(n.h, &n.v)
	n.v.Store(v)
}

func (n *Uint64) Add(d uint64) uint64 {
	access(n.h, &n.v)
	return n.v.Add(d)
}

// Word32 is a uint32 in memory that others may share. The zero value has none.
// A copy is of the same word.
type Word32 struct {
	p *atomic.Uint32
	h Hook
}

// At32 is the word at p; h may be nil.
func At32(p *atomic.Uint32, h Hook) Word32 { return Word32{p, h} }

// Watch has h told of accesses through this copy, by the address that is returned.
func (w *Word32) Watch(h Hook) any { w.h = h; return w.p }

// Addr is where the word lies; a Hook is not told of what is done there.
func (w Word32) Addr() *atomic.Uint32 { return w.p }

// Hook is what is told of accesses, or nil.
func (w Word32) Hook() Hook { return w.h }

func (w Word32) Load() uint32 {
	access(w.h, w.p)
	return w.p.Load()
}

func (w Word32) Store(v uint32) {
	access(w.h, w.p)
	w.p.Store(v)
}

func (w Word32) Swap(v uint32) uint32 {
	access(w.h, w.p)
	return w.p.Swap(v)
}

func (w Word32) CompareAndSwap(old, v uint32) bool {
	access(w.h, w.p)
	return w.p.CompareAndSwap(old, v)
}

// Word64 is a uint64 in memory that others may share. The zero value has none.
// A copy is of the same word.
type Word64 struct {
	p *atomic.Uint64
	h Hook
}

// At64 is the word at p; h may be nil.
func At64(p *atomic.Uint64, h Hook) Word64 { return Word64{p, h} }

// Watch has h told of accesses through this copy, by the address that is returned.
func (w *Word64) Watch(h Hook) any { w.h = h; return w.p }

// Addr is where the word lies; a Hook is not told of what is done there.
func (w Word64) Addr() *atomic.Uint64 { return w.p }

func (w Word64) Load() uint64 {
	access(w.h, w.p)
	return w.p.Load()
}

func (w Word64) Store(v uint64) {
	access(w.h, w.p)
	w.p.Store(v)
}

// Mutex is a sync.Mutex. The zero value is unlocked.
type Mutex struct {
	Inner sync.Mutex // for a Hook; all others call the methods
	h     Hook
}

// Watch has h take the place of the mutex.
func (m *Mutex) Watch(h Hook) { m.h = h }

func (m *Mutex) Lock() {
	if m.h != nil {
		m.h.Lock(m)
		return
	}
	m.Inner.Lock()
}

func (m *Mutex) TryLock() bool {
	if m.h != nil {
		return m.h.TryLock(m)
	}
	return m.Inner.TryLock()
}

func (m *Mutex) Unlock() {
	if m.h != nil {
		m.h.Unlock(m)
		return
	}
	m.Inner.Unlock()
}

// Futex is a Hook that takes the place of the kernel's futexes, too.
type Futex interface {
	Hook

	// Sleep sleeps until Wake is called, if *x is value.
	Sleep(x *atomic.Uint32, value uint32)
	Wake(x *atomic.Uint32)
}
