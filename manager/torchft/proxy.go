package torchft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
)

// DefaultProxyListen is where a job of torchft's finds the proxy of its host. The
// port is the lighthouse's own.
const DefaultProxyListen = "127.0.0.1:29510"

// ProxyConfig tells a Proxy whom to ask.
type ProxyConfig struct {
	// Lighthouse has the addresses of lighthouse servers, "host:port" or URLs.
	Lighthouse []string
	// Job is sent to the lighthouse as call metadata, unless the caller names one;
	// "" sends nothing.
	Job string
	// Listener is where the job's managers come from; the proxy closes it. nil:
	// Listen is listened at.
	Listener net.Listener
	// Listen is "host:port"; "" means DefaultProxyListen. Whoever reaches it speaks
	// to the lighthouse with this proxy's certificate.
	Listen string
	// Dial replaces the options of connections to lighthouse servers, transport
	// credentials included; nil: plain TCP.
	Dial []grpc.DialOption

	Log zerolog.Logger
}

// Validate returns all problems, joined. Zero values stand for their defaults.
func (c ProxyConfig) Validate() error {
	var l problems.List
	checkLighthouse(&l, c.Job, c.Lighthouse)
	_, _, err := net.SplitHostPort(c.Listen)
	l.Want(c.Listen == "" || err == nil, "Listen", c.Listen, "host:port")
	return l.Err()
}

// Proxy serves torchft's LighthouseService beside a job, and passes every call on
// to one lighthouse server after another. torchft's managers know one address, and
// a call that fails there ends their job: the proxy holds the call while servers
// die and leaders change, until the caller's deadline. It keeps no state, so that
// it may be started again at any time; the calls that wait are then lost.
type Proxy struct {
	torchftpb.UnimplementedLighthouseServiceServer

	cfg      ProxyConfig
	listener net.Listener
	rpc      *grpc.Server
	servers  *lighthouses
}

// NewProxy checks cfg and listens; Run serves. Close releases what it took, if Run
// never ran.
func NewProxy(cfg ProxyConfig) (*Proxy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Listen = cmp.Or(cfg.Listen, DefaultProxyListen)
	p := &Proxy{cfg: cfg, listener: cfg.Listener}
	if p.listener == nil {
		listener, err := net.Listen("tcp", cfg.Listen)
		if err != nil {
			return nil, fmt.Errorf("listen for the job's managers: %w", err)
		}
		p.listener = listener
	}
	servers, err := openLighthouses(cfg.Lighthouse, cfg.Job, cfg.Dial, cfg.Log)
	if err != nil {
		return nil, errors.Join(err, p.listener.Close())
	}
	p.servers = servers
	var services grpc.ServiceRegistrar
	p.listener, p.rpc, services = newRPC(p.listener, insecure.NewCredentials(), cfg.Log)
	torchftpb.RegisterLighthouseServiceServer(services, p)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() net.Addr { return p.listener.Addr() }

// Run serves until ctx ends; then the calls that wait end.
func (p *Proxy) Run(ctx context.Context) error {
	served := make(chan error, 1)
	var all sync.WaitGroup
	all.Go(func() { served <- p.rpc.Serve(p.listener) })
	p.cfg.Log.Info().Stringer(logkey.Addr, p.Addr()).Strs("servers", p.cfg.Lighthouse).Msg("proxy started")
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
		err = fmt.Errorf("serve the job's managers: %w", err)
	}
	p.rpc.Stop()
	all.Wait()
	return errors.Join(err, p.Close())
}

// Close releases what NewProxy took. Run does it by itself.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return errors.Join(err, p.servers.close())
}

// Quorum passes a join on, and holds it until a server has answered it or the
// caller's deadline has passed.
func (p *Proxy) Quorum(ctx context.Context, req *torchftpb.LighthouseQuorumRequest) (*torchftpb.LighthouseQuorumResponse, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	resp, err := p.servers.quorum(passedOn(ctx), req)
	return resp, p.answered(ctx, req.GetRequester().GetReplicaId(), err)
}

// Heartbeat passes a beat on.
func (p *Proxy) Heartbeat(ctx context.Context, req *torchftpb.LighthouseHeartbeatRequest) (*torchftpb.LighthouseHeartbeatResponse, error) {
	if err := p.servers.heartbeat(passedOn(ctx), req); err != nil {
		return nil, p.answered(ctx, req.GetReplicaId(), err)
	}
	return &torchftpb.LighthouseHeartbeatResponse{}, nil
}

// passedOn keeps the job that a caller names.
func passedOn(ctx context.Context) context.Context {
	if job := metadata.ValueFromIncomingContext(ctx, wire.JobMetadata); len(job) > 0 {
		return metadata.AppendToOutgoingContext(ctx, wire.JobMetadata, job[0])
	}
	return ctx
}

// quiet are the codes with which a call ends that no server has refused.
var quiet = []codes.Code{codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable}

// answered logs a refusal, which torchft's ranks are not told of, and returns what
// the caller is told.
func (p *Proxy) answered(ctx context.Context, id string, err error) error {
	if err == nil {
		return nil
	}
	if code := status.Code(err); !slices.Contains(quiet, code) {
		p.cfg.Log.Warn().Str(logkey.ReplicaID, wire.Text(id)).Err(err).Msg("call refused")
	}
	if ctx.Err() != nil {
		return wire.StatusError(ended(ctx))
	}
	return err
}
