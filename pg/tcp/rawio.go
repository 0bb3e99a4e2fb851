package tcp

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/pg/tcp/internal/sockopt"
)

// rawConn reads and writes several buffers with one system call, and writes
// without waiting. net.Buffers can do neither. One goroutine may read and one
// may write at a time; deadlines may be set from any.
type rawConn struct {
	tcp    *net.TCPConn
	raw    syscall.RawConn
	sealed atomic.Pointer[sealed] // TLS; nil: bytes go as they are

	rd, wr vectorCall
}

// vectorCall is the state of one readv or writev. It lives in the connection
// so that calls allocate nothing.
type vectorCall struct {
	number uintptr // of the system call
	iov    [2]syscall.Iovec
	n      int  // vectors in use
	wait   bool // wait for the poller when the socket is not ready
	got    int
	errno  syscall.Errno
	step   func(fd uintptr) bool
}

func newRawConn(c *net.TCPConn) (*rawConn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	r := &rawConn{tcp: c, raw: raw}
	r.rd.number, r.wr.number = unix.SYS_READV, unix.SYS_WRITEV
	r.rd.step, r.wr.step = r.rd.call, r.wr.call
	return r, nil
}

func (v *vectorCall) set(a, b []byte) {
	v.n = 0
	for _, p := range [2][]byte{a, b} {
		if len(p) > 0 {
			v.iov[v.n] = syscall.Iovec{Base: unsafe.SliceData(p), Len: uint64(len(p))}
			v.n++
		}
	}
}

// call tries once; true ends the wait.
func (v *vectorCall) call(fd uintptr) bool {
	for {
		n, _, errno := syscall.Syscall(v.number, fd, uintptr(unsafe.Pointer(&v.iov[0])), uintptr(v.n))
		switch errno {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			v.got, v.errno = 0, errno
			return !v.wait
		}
		v.got, v.errno = int(n), errno
		return true
	}
}

// errAgain is given by writes that may not wait.
var errAgain = errors.New("tcp: socket is full")

func (v *vectorCall) result(err error) (int, error) {
	v.iov = [2]syscall.Iovec{} // keep no tensor alive
	if err != nil {
		return 0, err
	}
	if v.errno == syscall.EAGAIN {
		return 0, errAgain
	}
	if v.errno != 0 {
		return 0, v.errno
	}
	return v.got, nil
}

// read fills a, then b, with what is there; it waits for at least one byte.
// Errors: io.EOF, os.ErrDeadlineExceeded after interruptRead, errors of the socket.
func (r *rawConn) read(a, b []byte) (int, error) {
	if s := r.sealed.Load(); s != nil {
		return s.read(a, b)
	}
	return r.receive(a, b)
}

// receive is read of the socket's own bytes.
func (r *rawConn) receive(a, b []byte) (int, error) {
	r.rd.set(a, b)
	r.rd.wait = true
	n, err := r.rd.result(r.raw.Read(r.rd.step))
	if err == nil && n == 0 {
		err = io.EOF
	}
	return n, err
}

// write sends of a, then b, what the socket takes. With wait it waits for
// room for at least one byte, without it gives errAgain.
func (r *rawConn) write(a, b []byte, wait bool) (int, error) {
	if s := r.sealed.Load(); s != nil {
		return s.write(a, b, wait)
	}
	return r.send(a, b, wait)
}

// send is write of the socket's own bytes.
func (r *rawConn) send(a, b []byte, wait bool) (int, error) {
	r.wr.set(a, b)
	r.wr.wait = wait
	return r.wr.result(r.raw.Write(r.wr.step))
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// interrupt ends the read and the write in flight with
// os.ErrDeadlineExceeded; they clear the deadline and look what is the matter.
func (r *rawConn) interrupt() {
	r.tcp.SetDeadline(past) // fails only on a closed socket, whose calls end anyway
}

func interrupted(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// writeAll writes p; it waits for room.
func (r *rawConn) writeAll(p []byte) error {
	for len(p) > 0 {
		n, err := r.write(p, nil, true)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// unread is how many bytes wait to be read, in the socket's receive buffer above all.
func (r *rawConn) unread() (n int) {
	r.control(func(fd int) { n = sockopt.Unread(fd) }) // 0 of one that is closed: the reader will see it
	if s := r.sealed.Load(); s != nil {
		n += int(s.unread.Load())
	}
	return n
}

// unacknowledged is how many written bytes the peer's system has not confirmed.
func (r *rawConn) unacknowledged() (n int) {
	r.control(func(fd int) { n = sockopt.Unacknowledged(fd) })
	return n
}

// unpace takes the socket, both of whose ends are on this host, out of the
// system's congestion control: there is none to control, and one that paces (BBR)
// sets a timer for each packet. CPU time of 64 MiB over loopback, n=2: 58 ms with
// it, 45 without.
func (r *rawConn) unpace() { r.control(sockopt.Unpace) }

// limitUnsent has writes wait while so many bytes are not sent yet, whatever the
// size of the send buffer; refused, the buffer alone is the limit.
func (r *rawConn) limitUnsent(n int) { r.control(func(fd int) { sockopt.LimitUnsent(fd, n) }) }

// control calls f with the descriptor, unless the socket is closed.
func (r *rawConn) control(f func(fd int)) { _ = r.raw.Control(func(fd uintptr) { f(int(fd)) }) }

// local tells whether both ends are on this host.
func (r *rawConn) local() bool {
	here, ok1 := r.tcp.LocalAddr().(*net.TCPAddr)
	there, ok2 := r.tcp.RemoteAddr().(*net.TCPAddr)
	return ok1 && ok2 && (there.IP.IsLoopback() || there.IP.Equal(here.IP))
}

// tune sets the socket's options; those the system refuses do not matter.
func (r *rawConn) tune(opt *Options) {
	_ = r.tcp.SetNoDelay(true)
	_ = r.tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
	})
	if opt.SocketBytes > 0 {
		_ = r.tcp.SetReadBuffer(opt.SocketBytes)
		_ = r.tcp.SetWriteBuffer(opt.SocketBytes)
	}
	// Beats find a silent peer much sooner; this is for links that no
	// group uses at the moment.
	r.unansweredFor(10 * time.Second)
}

// unansweredFor ends the connection when what was sent is not acknowledged, by the
// other system, for d; 0: the system's own, long, time. Best effort: without it
// other deadlines are met.
func (r *rawConn) unansweredFor(d time.Duration) {
	r.control(func(fd int) { sockopt.UnansweredFor(fd, d) })
}
