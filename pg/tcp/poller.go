package tcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/pg"
)

// bell is what peers wake our poller with: a pipe, whose end for writing they hold
// too. Not an eventfd: a pipe can be opened anew, so that whether a write may
// block is each holder's own affair (see ownBell).
//
// What peers hold is not what we ring it with: they may do to theirs what they
// like.
type bell struct {
	file *os.File // for reading
	own  *os.File // for writing, ours alone
	pass *os.File // for writing, opened anew: peers get this one
	raw  syscall.RawConn
	read func(fd uintptr) bool
	buf  [512]byte
}

func newBell() (*bell, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, fmt.Errorf("make a bell: %w", err)
	}
	e := &bell{file: os.NewFile(uintptr(fds[0]), "bell"), own: os.NewFile(uintptr(fds[1]), "bell")}
	pass, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fds[1]), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a bell for peers: %w", err), e.file.Close(), e.own.Close())
	}
	e.pass = os.NewFile(uintptr(pass), "bell for peers")
	if e.raw, err = e.file.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("make a bell: %w", err), e.close())
	}
	e.read = func(fd uintptr) bool {
		_, err := unix.Read(int(fd), e.buf[:])
		return err != unix.EAGAIN
	}
	return e, nil
}

// wait sleeps until the bell rings or is closed.
func (e *bell) wait() error { return e.raw.Read(e.read) }

// ring wakes our own poller.
func (e *bell) ring() {
	raw, err := e.own.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { ringFD(int(fd)) }) // closed means over
	}
}

func (e *bell) close() error { return errors.Join(e.file.Close(), e.own.Close(), e.pass.Close()) }

// ringFD rings the bell behind a descriptor that does not block. What fails does not
// matter: full means rung, and a peer's death is its socket's news.
func ringFD(fd int) {
	one := [1]byte{1}
	_, _ = unix.Write(fd, one[:])
}

// ownBell opens a peer's bell anew, so that nothing the peer does to its own
// descriptor can make ours block. It closes f, and refuses what is no pipe.
func ownBell(f *os.File) (*os.File, error) {
	defer f.Close() // it is the peer's
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	own := -1
	var inner error
	err = raw.Control(func(fd uintptr) {
		path := fmt.Sprintf("/proc/self/fd/%d", fd)
		if to, err := os.Readlink(path); err != nil || !strings.HasPrefix(to, "pipe:[") {
			inner = fmt.Errorf("%w: bell is %q", ErrCorrupt, to)
			return
		}
		if own, inner = unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); inner != nil {
			inner = fmt.Errorf("open a peer's bell: %w", inner)
		}
	})
	if err := errors.Join(err, inner); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(own), "peer's bell"), nil
}

// watched is a lane that the poller or the knell holds a reference to.
type watched struct {
	l *link
	n *lane
}

// spinTime is how long the poller looks before it sleeps: about what a wake-up
// costs both sides, so that at worst twice the least is lost.
const spinTime = 15 * time.Microsecond

// crowdSpinTime is the same where ranks fill the processors: looking yields to
// the others, whose turns are longer than a wake-up.
const crowdSpinTime = 60 * time.Microsecond

// poller looks for what peers write into shared memory. A goroutine that waits
// for an op does it, as long as there is much to see; else the poller's own, which
// sleeps until a peer rings. Peers ring only when the lanes say so: when ops are
// pending and nobody looks. With no op pending there is nothing to take.
//
// Whoever leaves makes sure that somebody will look: it shows the peers that
// they are to ring, and then looks once more.
type poller struct {
	b       *Backend
	helping atomic.Bool // a waiting goroutine looks, or is about to
	armed   atomic.Bool // peers ring

	mu struct { // held by who looks
		sync.Mutex

		lanes  []watched
		seen   uint64 // Backend.lanesGen when lanes was filled
		asleep uint32
		crowd  bool // ranks of this host on every processor: what else a rank does finds none free
		closed bool
	}
}

// poll is the poller's own goroutine.
func (b *Backend) poll() {
	p := b.poller
	for {
		if err := b.bell.wait(); err != nil { // closed
			p.close()
			return
		}
		if p.helping.Load() {
			continue // who helps has seen it, or looks once more when it leaves
		}
		p.mu.Lock()
		p.watch(nil)
		p.leave()
	}
}

func (p *poller) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.mu.lanes {
		w.n.unref()
	}
	p.mu.lanes, p.mu.closed = nil, true
}

// Help implements pg.Helper.
func (b *Backend) Help(ctx context.Context, w *pg.Work) {
	p := b.poller
	if p == nil || w.Finished() || !p.helping.CompareAndSwap(false, true) {
		return
	}
	p.mu.Lock()
	p.watch(func() bool { return w.Finished() || ctx.Err() != nil })
	p.helpedLocked()
}

// helpedLocked is the end of a help: of what rings from now on, the poller's
// goroutine takes notice again. It lets go of mu.
func (p *poller) helpedLocked() {
	p.helping.Store(false)
	p.leave()
}

// watch looks until nothing came for a moment, or over is true; without over,
// until somebody helps. The caller holds mu.
//
// It leaves with the peers told not to ring, always: a ring that comes before
// helping is false is dropped, and each value of asleep is answered once. So a
// helper that showed one, and found nothing to take, would leave the next op to a
// ring that is not to come.
func (p *poller) watch(over func() bool) {
	p.tellLocked(false)
	idle := time.Time{}
	for {
		switch {
		case over != nil:
			if over() {
				return
			}
		case p.helping.Load():
			return
		}
		if p.lookLocked() {
			idle = time.Time{}
			if over == nil {
				runtime.Gosched() // who waits for what was done goes first
			}
			continue
		}
		if idle.IsZero() {
			idle = time.Now()
		}
		if !p.spinLocked(idle) {
			return
		}
	}
}

// leave lets go of mu. If ops are pending, and nobody is about to help, peers ring
// from now on.
func (p *poller) leave() {
	for {
		p.restLocked()
		p.mu.Unlock()
		// An op that came before we let go, and found mu taken, relies on us.
		if p.armed.Load() || p.helping.Load() || p.b.pending.Load() == 0 || !p.mu.TryLock() {
			return
		}
	}
}

// rest makes sure that somebody looks for what an op needs that was just
// submitted.
func (p *poller) rest() {
	if p == nil || p.armed.Load() || p.helping.Load() || !p.mu.TryLock() {
		return
	}
	p.leave()
}

// restLooks is how often who leaves looks again before the poller's goroutine is
// to do it: Submit must not bring forward all of a long op.
const restLooks = 2

// restLocked shows the peers whether to ring, and takes what they wrote before
// they could see it.
func (p *poller) restLocked() {
	for try := 0; p.b.pending.Load() > 0 && !p.helping.Load(); try++ {
		p.refreshLocked()
		p.tellLocked(true)
		if !p.pendingLocked() {
			return
		}
		if try == restLooks {
			p.b.bell.ring()
			return
		}
		p.tellLocked(false)
		p.lookLocked()
	}
}

// spinLocked passes a moment; false if there were enough of them.
func (p *poller) spinLocked(idle time.Time) bool {
	if len(p.mu.lanes) == 0 {
		return false
	}
	for range 16 {
		if p.pendingLocked() {
			return true
		}
	}
	if p.mu.crowd {
		// No processor is ours alone: the one that we wait for may need it.
		_, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		return p.pendingLocked() || time.Since(idle) < crowdSpinTime
	}
	return time.Since(idle) < spinTime
}

// lookLocked pulls and pushes what can be; false if that is nothing.
func (p *poller) lookLocked() bool {
	p.refreshLocked()
	any := false
	for _, w := range p.mu.lanes {
		for class := range w.n.channels {
			c := &w.n.channels[class]
			if c.recv.pending() {
				any = true
				p.b.pull(w.l)
			}
			if c.send.roomCame() {
				any = true
				p.b.pushClass(w.l, class)
			}
		}
	}
	return any
}

func (p *poller) pendingLocked() bool {
	for _, w := range p.mu.lanes {
		if w.n.pending() {
			return true
		}
	}
	return p.b.lanesGen.Load() != p.mu.seen && !p.mu.closed
}

// tellLocked shows all peers whether to ring.
func (p *poller) tellLocked(ring bool) {
	if p.armed.Load() == ring {
		return
	}
	p.mu.asleep++
	for _, w := range p.mu.lanes {
		w.n.asleep().Store(p.mu.asleep)
	}
	p.armed.Store(ring)
}

// refreshLocked takes over the lanes that there are now.
func (p *poller) refreshLocked() {
	b := p.b
	gen := b.lanesGen.Load()
	if gen == p.mu.seen || p.mu.closed {
		return
	}
	old, fresh := p.mu.lanes, b.watchLanes()
	p.mu.lanes, p.mu.seen = fresh, gen
	p.mu.crowd = len(fresh)+1 >= runtime.NumCPU()
	for _, w := range fresh {
		w.n.asleep().Store(p.mu.asleep)
	}
	for _, w := range old {
		w.n.unref()
	}
}

// watchLanes is the lanes that there are, with a reference to each.
func (b *Backend) watchLanes() []watched {
	b.mu.Lock()
	defer b.mu.Unlock()
	lanes := make([]watched, 0, len(b.mu.links))
	for l := range b.mu.links {
		if l.lane != nil {
			lanes = append(lanes, watched{l, l.lane.ref()})
		}
	}
	return lanes
}

// lanesChanged lets the poller know, and the knell.
func (b *Backend) lanesChanged() {
	b.lanesGen.Add(1)
	b.knell.poke()
	if b.bell != nil {
		b.bell.ring()
	}
}
