package tcp

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/skerry-ft/skerry/internal/futex"
)

// A process that is killed loses its memory before its sockets close, and freeing
// a gigabyte takes a good part of a second. Before either, the kernel goes through
// the robust futexes of every thread that ends, marks them, and wakes who waits:
// made for locks whose owner died, they tell a death in a fraction of a
// millisecond. So each segment has a word that one thread of its maker holds for
// as long as the process lives, and the same thread waits for the words of all
// peers.
//
// What it hears only hurries the socket's end: the reader comes to it behind all
// that the peer had said, and judges as ever. Where the kernel lacks something of
// this (futex_waitv is of Linux 5.16), the socket's own end is what is left.
const (
	deathListEntry = 512 // of the list, in a segment's control page
	deathListWord  = 576 // the word that goes with it

	// Of the memory of our own.
	deathListHead    = 0
	deathListControl = 64
	deathListBytes   = 128
)

// deathWatch tells peers of this process's death, and hears of theirs. Its goroutine owns
// all but what poke changes, and never leaves its thread.
type deathWatch struct {
	b     *Backend
	page  []byte // the head of the list, and the word that poke changes
	seen  uint64 // Backend.lanesGen when lanes was filled
	lanes []watched
	dead  []bool // heard of, by index in lanes
	waits []futex.Waiter
}

func newDeathWatch(b *Backend) *deathWatch {
	words := make([]uint64, deathListBytes/8) // memory that Go does not move
	return &deathWatch{b: b, page: unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), deathListBytes)}
}

// pointer is a pointer of the list that the kernel follows.
func pointer(b []byte, off int) *atomic.Uintptr { return (*atomic.Uintptr)(unsafe.Pointer(&b[off])) }

func address(b []byte, off int) uintptr { return uintptr(unsafe.Pointer(&b[off])) }

func futexWord(b []byte, off int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&b[off])) }

// poke has the goroutine look again: a lane has come or gone, or it is to end.
func (k *deathWatch) poke() {
	if k == nil {
		return
	}
	word := futexWord(k.page, deathListControl)
	word.Add(1)
	futex.WakePrivate(word) // nobody waits: it will look anyway
}

// listen is the death watch's goroutine.
func (k *deathWatch) listen() {
	runtime.LockOSThread() // for good: the thread ends with us
	k.enroll()
	for {
		control := futexWord(k.page, deathListControl).Load()
		select {
		case <-k.b.closing:
			_ = futex.SetRobustList(0) // the thread's end is no death; an error: it has none
			unwatch(k.lanes)
			return
		default:
		}
		k.refresh()
		k.hear()
		k.wait(control)
	}
}

// enroll has the kernel go through our list when this thread ends.
func (k *deathWatch) enroll() {
	pointer(k.page, deathListHead).Store(address(k.page, deathListHead))
	pointer(k.page, deathListHead+8).Store(deathListWord - deathListEntry)
	if err := futex.SetRobustList(address(k.page, deathListHead)); err != nil {
		k.b.opt.Logger.Debug().Err(err).Msg("death not told before the sockets do")
	}
}

// refresh takes over the lanes that there are now. The list is made anew from what
// we know: its pointers lie where peers can write.
func (k *deathWatch) refresh() {
	b := k.b
	gen := b.lanesGen.Load()
	if gen == k.seen {
		return
	}
	old := k.lanes
	k.lanes, k.seen = b.watchLanes(), gen
	k.dead = resize(k.dead, len(k.lanes))
	next, mine := address(k.page, deathListHead), futex.Waiters|futex.Thread()
	for _, w := range k.lanes {
		own := w.n.out.Bytes()
		futexWord(own, deathListWord).Store(mine)
		pointer(own, deathListEntry).Store(next)
		next = address(own, deathListEntry)
	}
	pointer(k.page, deathListHead).Store(next)
	unwatch(old)
}

// hear ends the sockets to those who died.
func (k *deathWatch) hear() {
	for i, w := range k.lanes {
		if !k.dead[i] && futexWord(w.n.in.Bytes(), deathListWord).Load()&futex.OwnerDied != 0 {
			k.dead[i] = true
			k.b.pullAll(w.l)                  // what it had published, as before a farewell
			for _, s := range w.l.sockets() { // reading ends behind what the peer had written
				_ = s.conn.tcp.CloseRead() // closed already: its reader knows
			}
		}
	}
}

// wait sleeps until a peer dies or poke is called. A word that has changed
// since hear, or a signal, ends it at once.
func (k *deathWatch) wait(control uint32) {
	mine := futexWord(k.page, deathListControl)
	k.waits = append(k.waits[:0], futex.Private(mine, control))
	for i, w := range k.lanes {
		word := futexWord(w.n.in.Bytes(), deathListWord)
		v := word.Load()
		if k.dead[i] || len(k.waits) == futex.MaxAny {
			continue
		}
		if v&futex.OwnerDied != 0 {
			return
		}
		k.waits = append(k.waits, futex.Shared(word, v))
	}
	if !futex.WaitAny(k.waits) { // peers still hear of us
		futex.WaitPrivate(mine, control)
	}
}
