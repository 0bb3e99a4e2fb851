package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// attemptDelay is how long a server may take to be reached before the next one is
// dialled beside it (RFC 8305 has 250 ms for addresses of one host). One that hangs,
// or is cut off, then costs this, and not the time that it has: a replica is lost
// after a heartbeat timeout.
const attemptDelay = 150 * time.Millisecond

// dialled is a connection to a server, or why there is none.
type dialled struct {
	at   int // in the queue
	conn *grpc.ClientConn
	err  error
}

// dialled connects to the first server of a queue, and beside it to the second if
// that takes long, or is refused. It gives the one that was reached first, or, if
// none was, what is wrong with the first.
func (s *Session) dialFirst(ctx context.Context, queue []string) dialled {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	results := make(chan dialled)
	running, begun := 0, 0
	begin := func() {
		if begun == min(len(queue), 2) {
			return
		}
		at := begun
		begun, running = begun+1, running+1
		wg.Go(func() {
			conn, err := s.connect(ctx, queue[at])
			results <- dialled{at, conn, err}
		})
	}
	defer func() {
		cancel()
		for ; running > 0; running-- {
			if r := <-results; r.conn != nil {
				r.conn.Close() //nolint:errcheck // another one was first
			}
		}
		wg.Wait()
	}()
	timer := time.NewTimer(attemptDelay)
	defer timer.Stop()
	var first dialled
	for begin(); running > 0; {
		select {
		case <-timer.C:
			begin()
		case r := <-results:
			running--
			switch {
			case r.err == nil && r.conn.GetState() == connectivity.Ready:
				if first.conn != nil {
					first.conn.Close() //nolint:errcheck // it was refused
				}
				return r
			case r.at == 0:
				first = r
				begin()
			case r.conn != nil:
				r.conn.Close() //nolint:errcheck // the first one's fate is told
			}
		}
	}
	return first
}

// connect makes one connection. One that is refused is given too: the call that
// follows says why.
func (s *Session) connect(ctx context.Context, addr string) (*grpc.ClientConn, error) {
	conn, err := s.cfg.Dial(addr)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	patience, _ := s.patience(addr)
	if err := reach(ctx, conn, patience); err != nil {
		conn.Close() //nolint:errcheck // nothing was sent on it
		return nil, err
	}
	return conn, nil
}
