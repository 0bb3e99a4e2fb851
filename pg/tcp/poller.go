package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bell is what peers wake our poller with: an eventfd, which they hold too.
type bell struct {
	file *os.File
	raw  syscall.RawConn
	read func(fd uintptr) bool
	buf  [8]byte
}

func newBell() (*bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make a bell: %w", err)
	}
	e := &bell{file: os.NewFile(uintptr(fd), "bell")}
	if e.raw, err = e.file.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("make a bell: %w", err), e.file.Close())
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
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_ = e.raw.Control(func(fd uintptr) { _, _ = unix.Write(int(fd), one[:]) }) // full means rung, closed means over
}

// watched is a lane that the poller holds a reference to.
type watched struct {
	l *link
	n *lane
}

// spinTime is how long the poller looks before it sleeps: about what a wake-up
// costs both sides, so that at worst twice the least is lost.
const spinTime = 15 * time.Microsecond

// poller is what wakes this process for what peers write into shared memory. It
// looks for a moment, then sleeps until a peer rings.
type poller struct {
	b      *Backend
	lanes  []watched
	seen   uint64 // Backend.lanesGen when lanes was filled
	asleep uint32
	crowd  bool // ranks of this host on every processor: what else a rank does finds none free
}

// poll is the poller.
func (b *Backend) poll() {
	p := &poller{b: b}
	defer func() {
		for _, w := range p.lanes {
			w.n.unref()
		}
	}()
	idle := time.Time{}
	for {
		if p.look() {
			idle = time.Time{}
			runtime.Gosched() // who waits for what was done goes first
			continue
		}
		if idle.IsZero() {
			idle = time.Now()
		}
		if p.spin(idle) {
			continue
		}
		if err := p.sleep(); err != nil {
			return // closed
		}
		idle = time.Time{}
	}
}

// spin passes a moment; false if there were enough of them.
func (p *poller) spin(idle time.Time) bool {
	if len(p.lanes) == 0 {
		return false
	}
	for range 16 {
		if p.pending() {
			return true
		}
	}
	if p.crowd {
		// No processor is ours alone: the one that we wait for may need it.
		_, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	return time.Since(idle) < spinTime
}

// look pulls and pushes what can be; false if that is nothing.
func (p *poller) look() bool {
	if gen := p.b.lanesGen.Load(); gen != p.seen {
		p.refresh(gen)
	}
	any := false
	for _, w := range p.lanes {
		if w.n.recv.pending() {
			any = true
			p.b.pull(w.l)
		}
		if w.n.send.roomCame() {
			any = true
			p.b.push(w.l)
		}
	}
	return any
}

func (p *poller) pending() bool {
	for _, w := range p.lanes {
		if w.n.recv.pending() || w.n.send.roomCame() {
			return true
		}
	}
	return p.b.lanesGen.Load() != p.seen
}

// sleep waits for a ring, unless something came since the last look.
func (p *poller) sleep() error {
	p.tell()
	defer p.tell()
	if p.pending() {
		return nil
	}
	return p.b.bell.wait()
}

// tell shows all peers whether we sleep.
func (p *poller) tell() {
	p.asleep++
	for _, w := range p.lanes {
		w.n.send.mine.asleep.Store(p.asleep)
	}
}

// refresh takes over the lanes that there are now.
func (p *poller) refresh(gen uint64) {
	old := p.lanes
	b := p.b
	b.mu.Lock()
	fresh := make([]watched, 0, len(b.mu.links))
	for l := range b.mu.links {
		if l.lane != nil {
			fresh = append(fresh, watched{l, l.lane.ref()})
		}
	}
	b.mu.Unlock()
	p.lanes, p.seen = fresh, gen
	p.crowd = len(fresh)+1 >= runtime.NumCPU()
	for _, w := range fresh {
		w.n.send.mine.asleep.Store(p.asleep)
	}
	for _, w := range old {
		w.n.unref()
	}
}

// lanesChanged lets the poller know.
func (b *Backend) lanesChanged() {
	b.lanesGen.Add(1)
	if b.bell != nil {
		b.bell.ring()
	}
}
