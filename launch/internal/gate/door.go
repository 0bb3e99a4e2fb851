package gate

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
)

const (
	// maxWaiting bounds the connections of one rank: it needs one.
	maxWaiting = 16
	// writeLimit bounds how long an order is written to a rank, which is stopped or reads nothing.
	writeLimit = time.Second
)

// door is the socket of one rank.
type door struct {
	path  string
	ln    *net.UnixListener
	wake  func()        // tells that waits may answer otherwise
	taken chan struct{} // closed when a connection has acknowledged an order
	done  context.Context
	end   context.CancelFunc // of done
	all   sync.WaitGroup

	mu struct {
		sync.Mutex

		waiting map[net.Conn]struct{}
		line    []byte // of the order; nil: none yet
		taken   bool
		closed  bool
	}
}

func open(path string, wake func()) (*door, error) {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	d := &door{path: path, ln: ln, wake: wake, taken: make(chan struct{})}
	d.done, d.end = context.WithCancel(context.Background())
	d.mu.waiting = make(map[net.Conn]struct{})
	d.all.Go(d.accept)
	return d, nil
}

// accept takes connections until close.
func (d *door) accept() {
	pause := backoff.Backoff{First: 10 * time.Millisecond, Most: time.Second}
	for {
		conn, err := d.ln.Accept()
		switch {
		case err == nil:
			pause.Reset()
			d.all.Go(func() { d.serve(conn) })
		case errors.Is(err, net.ErrClosed):
			return
		default: // too many files, for the moment
			if pause.Wait(d.done) != nil {
				return
			}
		}
	}
}

// serve keeps one connection until the order is acknowledged, or it has gone.
func (d *door) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // all was written, or it has gone
	line, ok := d.enter(conn)
	if !ok {
		return
	}
	if line != nil {
		write(conn, line)
	}
	var ack [1]byte
	n, _ := conn.Read(ack[:]) // an error says that it has gone
	d.leave(conn, n > 0)
}

// enter adds a connection, and returns the order, if it was given before.
func (d *door) enter(conn net.Conn) (line []byte, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.closed || len(d.mu.waiting) >= maxWaiting {
		return nil, false
	}
	d.mu.waiting[conn] = struct{}{}
	d.wake()
	return d.mu.line, true
}

// leave takes a connection out; acknowledged: it had the order, and has carried it out.
func (d *door) leave(conn net.Conn, acknowledged bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.waiting, conn)
	if acknowledged && d.mu.line != nil && !d.mu.taken {
		d.mu.taken = true
		close(d.taken)
	}
	d.wake()
}

// waits says whether the rank waits for an order.
func (d *door) waits() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.mu.waiting) > 0 && d.mu.line == nil
}

// order tells those that wait, and those that come.
func (d *door) order(line []byte) {
	d.mu.Lock()
	d.mu.line = line
	var told []net.Conn
	for conn := range d.mu.waiting {
		told = append(told, conn)
	}
	d.mu.Unlock()
	for _, conn := range told {
		write(conn, line)
	}
}

// write writes an order. What does not read it does not acknowledge it either.
func write(conn net.Conn, line []byte) {
	_ = conn.SetWriteDeadline(time.Now().Add(writeLimit)) // it fails on what is closed, as Write does
	_, _ = conn.Write(line)                               // see above
}

func (d *door) close() error {
	d.end()
	err := d.ln.Close()
	d.mu.Lock()
	d.mu.closed = true
	for conn := range d.mu.waiting {
		_ = conn.Close() // by which serve ends
	}
	d.mu.Unlock()
	d.all.Wait()
	return err
}
