package torchft

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
)

// lighthouses are the servers that may be asked. One of them is asked until it
// fails; then the calls that wait there are made again at the next one. It is safe
// for concurrent use.
type lighthouses struct {
	addrs []string
	job   string // named in each call's metadata; "": not
	log   zerolog.Logger
	conns []*grpc.ClientConn

	mu    sync.Mutex
	asked int             // index of the server that is asked
	left  context.Context // ends when that one is left
	leave context.CancelFunc
}

// openLighthouses prepares connections; they are made by the first calls. dial
// nil: plain TCP.
func openLighthouses(addrs []string, job string, dial []grpc.DialOption, log zerolog.Logger) (*lighthouses, error) {
	if dial == nil {
		dial = append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	l := &lighthouses{addrs: addrs, job: job, log: log}
	l.left, l.leave = context.WithCancel(context.Background())
	for _, addr := range addrs {
		conn, err := grpc.NewClient("passthrough:///"+netaddr.HostPort(addr), dial...)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("dial lighthouse %s: %w", addr, err), l.close())
		}
		l.conns = append(l.conns, conn)
	}
	return l, nil
}

func (l *lighthouses) close() error {
	var errs []error
	for _, conn := range l.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// chosen is the server that is asked at a time.
type chosen struct {
	torchftpb.LighthouseServiceClient

	index int
	left  context.Context // ends when it is asked no more
}

func (l *lighthouses) current() chosen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return chosen{torchftpb.NewLighthouseServiceClient(l.conns[l.asked]), l.asked, l.left}
}

// failed turns to the next server, unless another call has already.
func (l *lighthouses) failed(index int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked != index || len(l.conns) == 1 {
		return
	}
	l.asked = (index + 1) % len(l.conns)
	l.leave()
	l.left, l.leave = context.WithCancel(context.Background())
	l.log.Warn().Str(logkey.Addr, l.addrs[index]).Err(err).Msg("lighthouse server left")
}

// errLeft ends a call at a server that another call has found dead.
var errLeft = errors.New("the server was left")

// call makes a call of the lighthouse until a server answers it, or refuses
// it, or ctx ends. One try is given so long; 0: until ctx ends, or the server is
// left by another call.
func (l *lighthouses) call(ctx context.Context, try time.Duration, do func(context.Context, torchftpb.LighthouseServiceClient) error) error {
	if l.job != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, wire.JobMetadata, l.job)
	}
	for {
		server := l.current()
		err := server.once(ctx, try, do)
		switch code := status.Code(err); {
		case err == nil || ctx.Err() != nil:
			return err
		case errors.Is(err, errLeft): // the next one is asked at once
			continue
		case code == codes.Unavailable || code == codes.Aborted || try > 0 && timedOut(code):
			l.failed(server.index, err)
		default:
			return err
		}
		if backoff.Sleep(ctx, tryPause) != nil {
			return err
		}
	}
}

// timedOut: a lighthouse says Canceled to torchft's clients, and so to us.
func timedOut(code codes.Code) bool { return code == codes.DeadlineExceeded || code == codes.Canceled }

// once makes one try at a server. It returns errLeft if another call left the
// server meanwhile.
func (c chosen) once(ctx context.Context, try time.Duration, do func(context.Context, torchftpb.LighthouseServiceClient) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if try > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, try)
		defer end()
	}
	stop := context.AfterFunc(c.left, func() { cancel(errLeft) })
	defer stop()
	err := do(ctx, c)
	if err != nil && errors.Is(context.Cause(ctx), errLeft) {
		return errLeft
	}
	return err
}

// beat tells a lighthouse that a replica is alive, each interval while lives says
// so, until ctx ends. A server that does not answer a beat is left.
func (l *lighthouses) beat(ctx context.Context, id string, every time.Duration, lives func() bool) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	req := &torchftpb.LighthouseHeartbeatRequest{ReplicaId: id}
	for {
		if lives() {
			// What a server refuses, and why, it says to the joins of the replica too.
			_ = l.heartbeat(ctx, req)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// heartbeat tells one server after another, a second each, until one has heard it
// or beatTimeout has passed.
func (l *lighthouses) heartbeat(ctx context.Context, req *torchftpb.LighthouseHeartbeatRequest) error {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	return l.call(ctx, tryTimeout, func(ctx context.Context, server torchftpb.LighthouseServiceClient) error {
		_, err := server.Heartbeat(ctx, req)
		return err
	})
}

// quorum joins and waits for the answer.
func (l *lighthouses) quorum(ctx context.Context, req *torchftpb.LighthouseQuorumRequest) (*torchftpb.LighthouseQuorumResponse, error) {
	var resp *torchftpb.LighthouseQuorumResponse
	err := l.call(ctx, 0, func(ctx context.Context, server torchftpb.LighthouseServiceClient) (err error) {
		resp, err = server.Quorum(ctx, req)
		return err
	})
	return resp, err
}
