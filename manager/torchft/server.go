package torchft

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/quorum"
)

// Server is one replica's manager.
type Server struct {
	torchftpb.UnimplementedManagerServiceServer

	cfg      Config
	listener net.Listener
	address  string
	rpc      *grpc.Server
	servers  *lighthouses
	callers  *callers
	asking   sync.WaitGroup // calls of the lighthouse under way
	ctx      context.Context
	cancel   context.CancelFunc // ends them; kept here because ranks' calls start them

	mu struct {
		sync.Mutex

		metadata map[int]string // by group rank
		round    *round         // the one that ranks join now; nil: the next caller begins one
		attempt  int64          // counts rounds, so that votes of two of them are never mixed
		tally    *quorum.Tally
		voted    *count // the step that is voted on
	}
}

// New checks cfg and listens; Run serves. Close releases what it took, if Run
// never ran.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := cfg.checkListen(); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for the replica's ranks: %w", err)
	}
	servers, err := openLighthouses(cfg.Lighthouse, cfg.Job, cfg.Dial, cfg.Log)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s := &Server{cfg: cfg, listener: listener, servers: servers, address: "http://" + listener.Addr().String()}
	if _, port, err := net.SplitHostPort(listener.Addr().String()); err == nil && cfg.Advertise != "" {
		s.address = "http://" + net.JoinHostPort(cfg.Advertise, port)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.metadata = make(map[int]string)
	s.mu.tally = quorum.NewTally(cfg.GroupWorldSize)
	s.callers = &callers{stay: beatsAlone * cfg.BeatInterval}
	var services grpc.ServiceRegistrar
	s.listener, s.rpc, services = newRPC(listener, cfg.Credentials, cfg.Log, grpc.StatsHandler(s.callers))
	torchftpb.RegisterManagerServiceServer(services, s)
	return s, nil
}

// Address is the URL that ranks and peers find this manager at.
func (s *Server) Address() string { return s.address }

// Run serves until ctx ends, and beats while a rank is connected: a manager whose
// ranks have died must not beat for the dead.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.rpc.Serve(s.listener); err != nil && ctx.Err() == nil {
			cancel(fmt.Errorf("serve the replica's ranks: %w", err))
		}
	})
	all.Go(func() { s.servers.beat(ctx, s.cfg.ReplicaID, s.cfg.BeatInterval, s.callers.there) })
	s.cfg.Log.Info().Str(logkey.ReplicaID, s.cfg.ReplicaID).Str(logkey.Addr, s.address).Msg("manager started")
	<-ctx.Done()
	s.cancel()
	s.rpc.Stop()
	all.Wait()
	s.asking.Wait()
	err := s.Close()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		err = errors.Join(cause, err)
	}
	return err
}

// Close releases what New took. Run does it by itself.
func (s *Server) Close() error {
	s.cancel()
	err := s.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(err, s.servers.close())
}

// bounded gives a call's ctx a deadline if it has none.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, quorumTimeout)
}

// ended says why a call's ctx is over. Past its deadline that is the deadline, whatever the
// ctx says: the transport cancels the call at that moment, too, and either may come first.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if at, ok := ctx.Deadline(); ok && errors.Is(cause, context.Canceled) && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return cause
}
