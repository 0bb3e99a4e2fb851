// Package watchers is people who look at a lighthouse: each has a connection of its own, asks for
// the stream as the page does (GET /api/v1/stream), and comes again when it is cut. Some read
// slowly, and some never.
package watchers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/backoff"
)

const (
	// comeAgain is when the page comes again that was cut.
	comeAgain = 250 * time.Millisecond

	// openLimit bounds the wait for the first state of each.
	openLimit = 30 * time.Second

	// A slow reader takes slowBytes each slowTurn, 10 KiB a second, and its system keeps little for it.
	slowBytes  = 2 << 10
	slowTurn   = 200 * time.Millisecond
	slowBuffer = 4 << 10
)

// Options say who looks at what.
type Options struct {
	Addr string
	N    int
	Job  string // at which half of them look; the others look at all
	Slow int    // so many of them read slowly
	Deaf bool   // none reads more than how the answer begins, nor notices that it is cut
}

// Seen is what all viewers have seen in a time.
type Seen struct {
	Bytes, Patches, Events, Cut int64
}

// Watchers are the people. It is safe for concurrent use.
type Watchers struct {
	o       Options
	stop    context.CancelFunc
	running sync.WaitGroup

	begun                       chan error // of each, once
	bytes, patches, events, cut atomic.Int64
}

// Open lets all look, and returns when each has had its first state.
func Open(ctx context.Context, o Options) (*Watchers, error) {
	v := &Watchers{o: o, begun: make(chan error, o.N)}
	ctx, v.stop = context.WithCancel(context.WithoutCancel(ctx))
	for i := range o.N {
		v.running.Go(func() { v.look(ctx, i) })
	}
	limit := time.NewTimer(openLimit)
	defer limit.Stop()
	for range o.N {
		var err error
		select {
		case err = <-v.begun:
		case <-limit.C:
			err = errors.New("a viewer has no state yet")
		}
		if err != nil {
			v.Close()
			return nil, err
		}
	}
	v.Take()
	return v, nil
}

// look looks until ctx ends.
func (v *Watchers) look(ctx context.Context, i int) {
	for first := true; ; first = false {
		err := fetchPast(ctx, v.o.Addr, v.o.Job)
		if err == nil {
			err = v.once(ctx, i, first)
		}
		if ctx.Err() != nil {
			return
		}
		if first && err != nil {
			v.begun <- fmt.Errorf("viewer %d: %w", i, err)
			return
		}
		v.cut.Add(1)
		if backoff.Sleep(ctx, comeAgain) != nil {
			return
		}
	}
}

// once is one connection, until it ends. The first state is told when it has begun to come.
func (v *Watchers) once(ctx context.Context, i int, first bool) error {
	slow := i < v.o.Slow || v.o.Deaf
	var d net.Dialer
	if slow {
		d.Control = keepLittle
	}
	conn, err := d.DialContext(ctx, "tcp", v.o.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()                                          //nolint:errcheck // it was read to its end
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends what waits for it
	path := "/api/v1/stream"
	if i%2 == 1 {
		path += "?job=" + v.o.Job
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nAccept-Encoding: gzip, deflate, br\r\n\r\n", path, v.o.Addr); err != nil {
		return err
	}
	piece := make([]byte, 64<<10)
	if slow {
		piece = piece[:slowBytes]
	}
	n, err := io.ReadAtLeast(conn, piece, len("HTTP/1.1 200 OK"))
	if err != nil {
		return err
	}
	if line, _, _ := bytes.Cut(piece[:n], []byte("\r\n")); string(line) != "HTTP/1.1 200 OK" {
		return fmt.Errorf("GET %s answers %q, want 200", path, line)
	}
	if first {
		v.begun <- nil
	}
	if v.o.Deaf {
		<-ctx.Done() // that it is cut, the server's side tells alone
		return nil
	}
	return v.read(ctx, conn, piece, slow)
}

// keepLittle bounds what the system keeps of what was sent to a socket that is not connected yet:
// later its peer has been told of more.
func keepLittle(_, _ string, raw syscall.RawConn) error {
	var err error
	failed := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, slowBuffer)
	})
	return errors.Join(failed, err)
}

// read takes what comes, and counts it, until the stream ends: it ends with no error.
func (v *Watchers) read(ctx context.Context, conn net.Conn, piece []byte, slow bool) error {
	for {
		n, err := conn.Read(piece)
		v.bytes.Add(int64(n))
		// One that lies across two pieces is not counted: few do.
		v.patches.Add(int64(bytes.Count(piece[:n], []byte("event: patch"))))
		v.events.Add(int64(bytes.Count(piece[:n], []byte("event: told"))))
		if err != nil {
			return nil
		}
		if slow && backoff.Sleep(ctx, slowTurn) != nil {
			return nil
		}
	}
}

// Take returns what was seen since it was last called.
func (v *Watchers) Take() Seen {
	return Seen{v.bytes.Swap(0), v.patches.Swap(0), v.events.Swap(0), v.cut.Swap(0)}
}

// Close ends all, and waits until they have ended.
func (v *Watchers) Close() {
	v.stop()
	v.running.Wait()
}
