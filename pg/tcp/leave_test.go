package tcp

import (
	"net"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/step"
)

// afterUnlock does something once, right after the next Unlock of a mutex.
type afterUnlock struct{ f func() }

func (h *afterUnlock) Access(any)                 {}
func (h *afterUnlock) Round()                     {}
func (h *afterUnlock) Lock(m *step.Mutex)         { m.Inner.Lock() }
func (h *afterUnlock) TryLock(m *step.Mutex) bool { return m.Inner.TryLock() }
func (h *afterUnlock) Unlock(m *step.Mutex) {
	m.Inner.Unlock()
	if f := h.f; f != nil {
		h.f = nil
		f()
	}
}

// TestLeaveWhileResuming: a writer that clears an interrupt does not clear with it
// the deadline of a link that is to leave, which came in between: it would wait for a
// peer that takes nothing, and Close for it.
func TestLeaveWhileResuming(t *testing.T) {
	t.Parallel()
	h := new(afterUnlock)
	b := New(Options{Transport: TransportTCP, hook: h})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String()) // accepted by nobody, read by nobody
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := newRawConn(c.(*net.TCPConn))
	if err != nil {
		t.Fatal(err)
	}
	l := &link{b: b}
	k := &sock{l: l, conn: raw}
	h.f = func() {
		l.leaving, l.leaveBy = true, time.Now().Add(time.Millisecond)
		raw.tcp.SetWriteDeadline(l.leaveBy)
	}
	if err := k.resume(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		var err error
		for some := make([]byte, 64<<10); err == nil; {
			_, err = raw.write(some, nil, true)
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if !interrupted(err) {
			t.Errorf("write: %v, want a deadline", err)
		}
	case <-time.After(testTimeout):
		t.Error("the writer waits without a deadline")
		c.Close()
		<-ended
	}
}
