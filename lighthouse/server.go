package lighthouse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/internal/perhost"
	"github.com/skerry-ft/skerry/internal/split"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/internal/feed"
	"github.com/skerry-ft/skerry/lighthouse/internal/health"
	"github.com/skerry-ft/skerry/lighthouse/internal/link"
	"github.com/skerry-ft/skerry/lighthouse/internal/metrics"
)

const (
	// maxStreamsPerConn bounds the calls and sessions on one connection: another
	// server passes on those of many replicas. Of who is not known guard.Intake
	// takes far fewer.
	maxStreamsPerConn = 8_192

	// closeTimeout is how long HTTP requests under way may take at shutdown.
	closeTimeout = time.Second
)

// Server is one lighthouse server. Addr and Close are safe for concurrent use;
// Run is called once.
type Server struct {
	cfg      Config
	guard    *guard.Guard
	log      zerolog.Logger
	sampled  zerolog.Logger // for the lines that strangers cause
	refused  feed.Refusals  // joins of torchft's
	sampler  *guard.Sampler // counts those that are left out
	listener net.Listener
	cluster  *cluster.Node
	metrics  *metrics.Metrics
	started  time.Time
	sessions atomic.Int64     // open ones, of all jobs
	hosts    *perhost.Counter // the same, by host

	// streams counts the goroutines of sessions. Their handlers cannot wait for
	// them: a receive ends only after its handler has returned.
	streams sync.WaitGroup

	link      *link.Link      // to the leader, while another server leads
	transport *http.Transport // for HTTP requests that the leader is to serve

	health *health.Health // for probes by gRPC

	closePort, closeCluster func() error // once; later calls return the same

	mu struct {
		monitor.Monitor // that leadership changed

		running, closed bool        // Run was called; Close was, before
		leadership      *leadership // nil: this server does not lead
	}
}

// New checks cfg, listens, and locks the data dir. It starts nothing: call
// Run, or Close to give up. A port that is taken, a data dir in use, or an address
// that other hosts reach and nothing guards, is an error that says so in one line.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g, err := guard.Open(cfg.Guard)
	if err != nil {
		return nil, err
	}
	if err := g.CheckOwn("", guard.Lighthouse); err != nil {
		return nil, err
	}
	if err := g.Token.Require(noJoinToken); err != nil {
		return nil, err
	}
	if err := cfg.checkListeners(g); err != nil {
		return nil, err
	}
	listener, err := cfg.Network.Listen(cfg.Listen)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg:      cfg,
		guard:    g,
		log:      cfg.Log.With().Str(logkey.Component, "lighthouse").Logger(),
		listener: listener,
		started:  time.Now(),
		hosts:    perhost.New(perhost.Limits{PerHost: int64(cfg.MaxConnsPerHost)}),

		link: link.New(cfg.Network, g.Speaks()), transport: link.Transport(cfg.Network, g.Speaks()),
	}
	s.health = health.New(skerrypb.Lighthouse_ServiceDesc.ServiceName, skerrypb.Cluster_ServiceDesc.ServiceName,
		torchftpb.LighthouseService_ServiceDesc.ServiceName)
	s.sampled, s.sampler = guard.Sampled(s.log)
	s.listener = s.limitConns(listener)
	s.metrics = s.newMetrics()
	s.cluster, err = cluster.Open(cluster.Config{
		Options: cfg.Cluster, Raft: cfg.Raft, DataDir: cfg.DataDir,
		Addr: listener.Addr(), Listen: cfg.Listen, Advertise: cfg.Advertise,
		Network: cfg.Network, HelloTimeout: cfg.HelloTimeout, Guard: g, Version: cfg.Version, Log: s.log, Sampled: s.sampled,
	})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.closeCluster = sync.OnceValue(s.cluster.Close)
	s.closePort = sync.OnceValue(func() error {
		if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil // Run's listeners closed it
	})
	return s, nil
}

// Addr is the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close releases what New took. Run does it by itself: while it runs, Close does no more
// than close the port.
func (s *Server) Close() error {
	s.mu.Lock()
	s.mu.closed = true
	running := s.mu.running
	s.mu.Unlock()
	if running {
		return s.closePort()
	}
	return s.end()
}

// end closes the port and the cluster, in which nobody takes part any more.
func (s *Server) end() error { return errors.Join(s.closePort(), s.closeCluster()) }

// begin says whether Run may run: what it opens, nobody would close after Close.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.running = !s.mu.closed
	return s.mu.running
}

// Run serves until ctx ends, and returns nil then, when all goroutines of the
// server have ended. Sessions and calls under way are cut without a word to
// the rules: a stopping lighthouse is no evidence against its replicas. A server that
// was closed before is an error, unless ctx has ended, too.
func (s *Server) Run(ctx context.Context) (err error) {
	if !s.begin() {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("run the lighthouse: %w", net.ErrClosed)
	}
	defer func() { err = errors.Join(err, s.end()) }()
	if err := s.cluster.Start(); err != nil {
		return err
	}
	port := split.New(split.Config{Listener: s.listener, Timeout: s.cfg.HelloTimeout, Secure: s.secured, Log: s.log})
	rpc := s.newRPCServer()
	pages := s.newWeb()
	page := pages.HTTP()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { port.Run(); return nil })
	g.Go(func() error { s.follow(ctx); return nil })
	g.Go(func() error { s.health.Watch(ctx, s.healthy); return nil })
	g.Go(func() error { s.guard.TellExpiry(ctx, s.log); return nil })
	g.Go(func() error { return serveError("RPC", rpc.Serve(port.GRPC())) })
	g.Go(func() error { return serveError("HTTP", page.Serve(port.HTTP())) })
	g.Go(func() error {
		// The leadership ends first, so that what the rest of the shutdown breaks
		// is no witness against anybody.
		defer func() {
			s.link.Close()
			rpc.Stop()
			stopHTTP(page)
			pages.Wait()
			_ = port.Close() // its listener's error is Close's to report
		}()
		return s.cluster.Run(ctx, leader{s})
	})
	s.log.Info().Stringer(logkey.Addr, s.Addr()).Msg("lighthouse started")
	s.warnUnguarded()
	s.warnOpened()
	err = g.Wait()
	s.streams.Wait()
	s.log.Info().Msg("lighthouse stopped")
	return err
}

// serveError drops the errors by which the two servers say that they were
// stopped.
func serveError(what string, err error) error {
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) ||
		errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", what, err)
}

// stopHTTP lets requests under way end, for a moment.
func stopHTTP(page *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if page.Shutdown(ctx) != nil {
		_ = page.Close() // the requests are cut, as said above
	}
}

func (s *Server) newRPCServer() *grpc.Server {
	intake := s.newIntake()
	options := slices.Concat(wire.ServerOptions(), guard.Checked(s.allowed), intake.ServerOptions(guard.Accepted()))
	options = append(options,
		grpc.MaxConcurrentStreams(maxStreamsPerConn),
		grpc.WaitForHandlers(true),
		grpc.ConnectionTimeout(s.cfg.HelloTimeout),
		grpc.ChainUnaryInterceptor(s.metrics.CountUnary, s.forwardUnary, s.checkMember),
		grpc.ChainStreamInterceptor(s.metrics.CountStream),
	)
	rpc := grpc.NewServer(options...)
	services := intake.Registrar(rpc)
	skerrypb.RegisterLighthouseServer(services, &lighthouseService{server: s})
	skerrypb.RegisterClusterServer(services, clusterService{s.cluster.Service(), s})
	torchftpb.RegisterLighthouseServiceServer(services, &torchftService{server: s})
	s.health.Register(services)
	if s.cfg.Reflection {
		health.RegisterReflection(services, rpc)
	}
	return rpc
}
