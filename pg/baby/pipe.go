package baby

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Bounds of what goes over the socket.
const (
	// maxMessageBytes bounds a message. The largest are the results of a ballot
	// of thousands of ranks.
	maxMessageBytes = 64 << 20
	// maxFilesPerRead bounds the descriptors taken with one read.
	maxFilesPerRead = 64
	readBufferBytes = 64 << 10
	headerBytes     = 4
)

// A pipe carries messages and descriptors both ways over a Unix socket. One
// goroutine reads; any may send.
type pipe struct {
	conn *net.UnixConn
	raw  syscall.RawConn

	in    []byte // what was read, from next on
	next  int
	fresh []byte // the read buffer
	oob   []byte
	files []*os.File // came, not yet taken by a message

	// noFiles refuses descriptors: they would fill this process's table. Set
	// before the first receive.
	noFiles bool

	flush sync.WaitGroup

	mu struct {
		sync.Mutex

		queue    []outgoing
		flushing bool
		closed   bool
	}
}

// outgoing is bytes to send, and a descriptor that goes with the first of them.
type outgoing struct {
	bytes []byte
	file  *os.File
}

func newPipe(f *os.File) (*pipe, error) {
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("open socket of the child: %w", err)
	}
	unix, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("socket of the child is %T, want a Unix socket", c)
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		unix.Close()
		return nil, fmt.Errorf("open socket of the child: %w", err)
	}
	return &pipe{
		conn: unix, raw: raw, fresh: make([]byte, readBufferBytes),
		oob: make([]byte, syscall.CmsgSpace(maxFilesPerRead*4)),
	}, nil
}

// seal fills in the length of a message that was begun with newMessage.
func seal(b []byte) []byte {
	binary.LittleEndian.PutUint32(b, uint32(len(b)-headerBytes))
	return b
}

// send queues a sealed message; it never waits. If the socket takes it at once,
// no other goroutine is involved. keep says that b may be used again by the
// caller as soon as send returns.
func (p *pipe) send(b []byte, file *os.File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return // the other side is gone; its death is reported by the reader
	}
	if len(p.mu.queue) == 0 && !p.mu.flushing {
		n := p.try(b, file)
		if n == len(b) {
			return
		}
		if n > 0 {
			b, file = b[n:], nil
		}
	}
	p.mu.queue = append(p.mu.queue, outgoing{append([]byte(nil), b...), file})
	if !p.mu.flushing {
		p.mu.flushing = true
		p.flush.Go(p.run)
	}
}

// try writes what the socket takes now, and returns how much that was.
func (p *pipe) try(b []byte, file *os.File) (n int) {
	var rights []byte
	if file != nil {
		rights = syscall.UnixRights(int(file.Fd()))
	}
	_ = p.raw.Write(func(fd uintptr) bool {
		n, _ = syscall.SendmsgN(int(fd), b, rights, nil, syscall.MSG_DONTWAIT|noSignal)
		return true // whatever came of it: waiting is run's business
	})
	return max(n, 0)
}

// run sends what is queued, waiting for the socket, until nothing is.
func (p *pipe) run() {
	for {
		p.mu.Lock()
		if len(p.mu.queue) == 0 || p.mu.closed {
			p.mu.queue, p.mu.flushing = nil, false
			p.mu.Unlock()
			return
		}
		out := p.mu.queue[0]
		p.mu.queue = p.mu.queue[1:]
		p.mu.Unlock()
		if err := p.writeAll(out); err != nil {
			p.close() // the reader sees the end and reports it
		}
	}
}

func (p *pipe) writeAll(out outgoing) error {
	b := out.bytes
	if out.file != nil {
		n, _, err := p.conn.WriteMsgUnix(b, syscall.UnixRights(int(out.file.Fd())), nil)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	_, err := p.conn.Write(b)
	return err
}

// receive returns the next message without its length. It is valid until the
// next call. io.EOF is the other side's end.
func (p *pipe) receive() ([]byte, error) {
	for {
		have := p.in[p.next:]
		if len(have) >= headerBytes {
			n := int(binary.LittleEndian.Uint32(have))
			if n < 1 || n > maxMessageBytes {
				return nil, fmt.Errorf("message of %d bytes from the other side, want 1 to %d", n, maxMessageBytes)
			}
			if len(have) >= headerBytes+n {
				p.next += headerBytes + n
				return have[headerBytes : headerBytes+n], nil
			}
		}
		p.in = append(p.in[:0], have...)
		p.next = 0
		if err := p.fill(); err != nil {
			return nil, err
		}
	}
}

func (p *pipe) fill() error {
	n, oobn, flags, _, err := p.conn.ReadMsgUnix(p.fresh, p.oob)
	if err == nil && flags&syscall.MSG_CTRUNC != 0 {
		err = fmt.Errorf("more than %d descriptors at once", maxFilesPerRead)
	}
	if oobn > 0 {
		if e := p.takeFiles(p.oob[:oobn]); err == nil {
			err = e
		}
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("read from the other side: %w", err)
	case err != nil || n == 0:
		return io.EOF
	}
	p.in = append(p.in, p.fresh[:n]...)
	return nil
}

func (p *pipe) takeFiles(oob []byte) error {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("read descriptors: %w", err)
	}
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			return fmt.Errorf("read descriptors: %w", err)
		}
		for _, fd := range fds {
			if p.noFiles {
				syscall.Close(fd) // nothing was written
				err = errFiles
				continue
			}
			syscall.CloseOnExec(fd)
			p.files = append(p.files, os.NewFile(uintptr(fd), "segment"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errFiles is why a child that passes descriptors is ended.
var errFiles = errors.New("the child passed a descriptor, which it has no reason for")

// takeFile is the next descriptor that came.
func (p *pipe) takeFile() (*os.File, error) {
	if len(p.files) == 0 {
		return nil, errors.New("a segment came without its descriptor")
	}
	f := p.files[0]
	p.files = p.files[1:]
	return f, nil
}

// close ends both directions. It does not wait.
func (p *pipe) close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.queue = nil
	p.mu.Unlock()
	p.conn.Close() // nothing to do about an error: the descriptor is gone
}

// wait waits, after close, for the goroutine that sends, and drops descriptors
// that nobody took. Only the reader calls it, once it reads no more.
func (p *pipe) wait() {
	p.flush.Wait()
	for _, f := range p.files {
		f.Close() // a read-write descriptor of memory: nothing is lost
	}
	p.files = nil
}
