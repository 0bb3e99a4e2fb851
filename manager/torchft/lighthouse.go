package torchft

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
)

// lighthouses are the servers that this manager may ask. One of them is asked
// until it fails. It is safe for concurrent use.
type lighthouses struct {
	cfg   Config
	conns []*grpc.ClientConn

	mu    sync.Mutex
	asked int // index of the server that is asked
}

// openLighthouses prepares connections; they are made by the first calls.
func openLighthouses(cfg Config) (*lighthouses, error) {
	l := &lighthouses{cfg: cfg}
	for _, addr := range cfg.Lighthouse {
		conn, err := grpc.NewClient("passthrough:///"+hostPort(addr), cfg.Dial...)
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

// current is the server that is asked now, and its index.
func (l *lighthouses) current() (torchftpb.LighthouseServiceClient, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return torchftpb.NewLighthouseServiceClient(l.conns[l.asked]), l.asked
}

// failed turns to the next server, unless somebody has already.
func (l *lighthouses) failed(index int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked != index || len(l.conns) == 1 {
		return
	}
	l.asked = (index + 1) % len(l.conns)
	l.cfg.Log.Warn().Str(logkey.Addr, l.cfg.Lighthouse[index]).Err(err).Msg("lighthouse server left")
}

// call makes a call of the lighthouse until a server answers it, or refuses
// it, or ctx ends.
func (l *lighthouses) call(ctx context.Context, do func(context.Context, torchftpb.LighthouseServiceClient) error) error {
	if l.cfg.Job != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, wire.JobMetadata, l.cfg.Job)
	}
	for {
		server, index := l.current()
		err := do(ctx, server)
		if code := status.Code(err); code != codes.Unavailable && code != codes.Aborted || ctx.Err() != nil {
			return err
		}
		l.failed(index, err)
		select {
		case <-time.After(tryPause):
		case <-ctx.Done():
			return err
		}
	}
}

// beat tells a lighthouse that this replica is alive, each interval, until ctx
// ends. A server that does not answer a beat is left.
func (l *lighthouses) beat(ctx context.Context) {
	ticker := time.NewTicker(l.cfg.BeatInterval)
	defer ticker.Stop()
	req := &torchftpb.LighthouseHeartbeatRequest{ReplicaId: l.cfg.ReplicaID}
	if l.cfg.Job != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, wire.JobMetadata, l.cfg.Job)
	}
	for {
		server, index := l.current()
		try, cancel := context.WithTimeout(ctx, tryTimeout)
		_, err := server.Heartbeat(try, req)
		cancel()
		if err != nil && ctx.Err() == nil {
			l.failed(index, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
