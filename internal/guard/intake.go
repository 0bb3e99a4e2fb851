package guard

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

const (
	// smallMessage needs no room: as many as there may be calls cost little.
	smallMessage = 4 << 10

	// roomUnknown and roomKnown bound the bytes of larger messages that are being
	// received from all peers at a time; one more waits for its turn.
	roomUnknown = 16 << 20
	roomKnown   = 64 << 20

	// maxCallsUnknown bounds the calls at a time on a connection of somebody who is
	// not known. A torchft client has two or three, a replica one and what an
	// operator asks.
	maxCallsUnknown = 128

	// maxHeaderBytes bounds the headers of a call: proofs and a job's name.
	maxHeaderBytes = 16 << 10
)

// IntakeConfig says what a gRPC server takes in.
type IntakeConfig struct {
	// Allowed says whether a call may be made, by its headers and its peer alone,
	// before anything of its body is read. It must not block, and its error is the
	// answer. nil: every call.
	Allowed func(ctx context.Context, method string) error

	// Known says whether a new connection's peer has proved who it is. nil: none has.
	Known func(state *tls.ConnectionState) bool

	// MaxBytes bounds the request of a call that has one only.
	MaxBytes func(method string) int

	// Timeout is how long a request may take to come, once its call is open or its
	// length is known, and how long a connection may be open without a call.
	Timeout time.Duration

	// Cut is told of connections that were cut. It must not block.
	Cut func(remote net.Addr, err error)
}

// Intake is how a gRPC server takes in calls: nothing of a body is asked for
// before the call is allowed, its length is known and within bounds, and there is
// room. Connections that flood are cut. Use its options and register the services
// with its Registrar. Safe for concurrent use once the server serves.
type Intake struct {
	cfg            IntakeConfig
	known, unknown *semaphore.Weighted
	methods        map[string]bool // those that are served
}

// NewIntake makes one for a server.
func NewIntake(cfg IntakeConfig) *Intake {
	return &Intake{
		cfg: cfg, methods: make(map[string]bool),
		known: semaphore.NewWeighted(roomKnown), unknown: semaphore.NewWeighted(roomUnknown),
	}
}

// ServerOptions are those of the server, whose connections are secured by creds.
func (in *Intake) ServerOptions(creds credentials.TransportCredentials) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(framing{creds, in}),
		grpc.ReadBufferSize(0), // frames reads ahead, and must see each frame as it is taken
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.InTapHandle(in.tap),
	}
}

// framing gives each connection its frames after the handshake.
type framing struct {
	credentials.TransportCredentials
	in *Intake
}

// ServerHandshake makes the handshake.
func (c framing) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	var state *tls.ConnectionState
	if t, ok := info.(credentials.TLSInfo); ok {
		state = &t.State
	}
	known := c.in.cfg.Known != nil && c.in.cfg.Known(state)
	f := newFrames(conn, known, c.in.cfg.Timeout, c.in.cfg.Cut)
	return f, framedInfo{info, f}, nil
}

// Clone implements credentials.TransportCredentials.
func (c framing) Clone() credentials.TransportCredentials {
	return framing{c.TransportCredentials.Clone(), c.in}
}

// framedInfo carries a connection's frames beside what is known of its peer.
type framedInfo struct {
	credentials.AuthInfo
	conn *frames
}

// stateOf is the TLS state of a call's connection, or nil: no peer is verified by it.
func stateOf(ctx context.Context) *tls.ConnectionState {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info := p.AuthInfo
	if f, ok := info.(framedInfo); ok {
		info = f.AuthInfo
	}
	if t, ok := info.(credentials.TLSInfo); ok {
		return &t.State
	}
	return nil
}

func framesOf(ctx context.Context) *frames {
	if p, ok := peer.FromContext(ctx); ok {
		if f, ok := p.AuthInfo.(framedInfo); ok {
			return f.conn
		}
	}
	return nil
}

// SetKnown notes that the peer of a call has proved who it is: its connection may
// send more.
func SetKnown(ctx context.Context) {
	if f := framesOf(ctx); f != nil {
		f.know()
	}
}

// IsKnown says whether the peer of a call has proved who it is.
func IsKnown(ctx context.Context) bool {
	f := framesOf(ctx)
	return f != nil && f.known.Load()
}

// tap looks at a call's headers, on the goroutine that reads its connection.
func (in *Intake) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	f := framesOf(ctx)
	err := in.allowed(ctx, info.FullMethodName)
	if f != nil {
		f.unseen = false
	}
	if f == nil || err != nil {
		if f != nil {
			f.waste(wasteOne)
		}
		return ctx, err
	}
	most := maxCallsUnknown
	if f.known.Load() {
		most = 0
	}
	s := newIncoming(ctx, f)
	if err := f.open(s, most); err != nil {
		f.waste(wasteOne)
		s.cancel()
		return ctx, status.Error(codes.ResourceExhausted, err.Error())
	}
	f.use()
	return s, nil
}

func (in *Intake) allowed(ctx context.Context, method string) error {
	switch {
	case !in.methods[method]:
		return status.Errorf(codes.Unimplemented, "unknown method %s", Shown(method))
	case in.cfg.Allowed != nil:
		return in.cfg.Allowed(ctx, method)
	}
	return nil
}

// Registrar registers services with s such that their messages are taken in
// within the bounds.
func (in *Intake) Registrar(s grpc.ServiceRegistrar) grpc.ServiceRegistrar { return registrar{in, s} }

type registrar struct {
	in *Intake
	to grpc.ServiceRegistrar
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	bounded := *desc
	bounded.Methods, bounded.Streams = nil, nil
	for _, m := range desc.Methods {
		name := "/" + desc.ServiceName + "/" + m.MethodName
		r.in.methods[name] = true
		most, handle := r.in.cfg.MaxBytes(name), m.Handler
		m.Handler = func(srv any, ctx context.Context, dec func(any) error, next grpc.UnaryServerInterceptor) (any, error) {
			return handle(srv, ctx, func(v any) error {
				return r.in.receive(ctx, most, func() error { return dec(v) })
			}, next)
		}
		bounded.Methods = append(bounded.Methods, m)
	}
	for _, st := range desc.Streams {
		name := "/" + desc.ServiceName + "/" + st.StreamName
		r.in.methods[name] = true
		most, handle := 0, st.Handler
		if !st.ClientStreams {
			most = r.in.cfg.MaxBytes(name)
		}
		st.Handler = func(srv any, stream grpc.ServerStream) error {
			return handle(srv, &boundedStream{stream, r.in, most})
		}
		bounded.Streams = append(bounded.Streams, st)
	}
	r.to.RegisterService(&bounded, impl)
}

// boundedStream receives within the bounds.
type boundedStream struct {
	grpc.ServerStream
	in   *Intake
	most int // 0: any that the server takes, and the first may be waited for
}

// RecvMsg implements grpc.ServerStream.
func (b *boundedStream) RecvMsg(m any) error {
	return b.in.receive(b.Context(), b.most, func() error { return b.ServerStream.RecvMsg(m) })
}

// receive waits until the next message may be read, and reads it. With most, it is
// the only one, and of no more than most bytes.
func (in *Intake) receive(ctx context.Context, most int, read func() error) error {
	s, ok := ctx.Value(incomingKey{}).(*incoming)
	if !ok {
		return read() // not through this server's port
	}
	limit := func() *time.Timer { return time.AfterFunc(in.cfg.Timeout, s.expire) }
	if most > 0 {
		defer limit().Stop()
	}
	n, ok := s.next(ctx)
	if !ok {
		return in.ended(s, read)
	}
	defer s.count(-1, false)
	if most > 0 && int64(n) > int64(most) {
		return status.Errorf(codes.ResourceExhausted, "request of %d bytes, want at most %d", n, most)
	}
	if most == 0 { // the first may be waited for
		defer limit().Stop()
	}
	if n > smallMessage {
		room, all := in.unknown, int64(roomUnknown)
		if s.conn.known.Load() {
			room, all = in.known, roomKnown
		}
		need := min(int64(n), all)
		if err := room.Acquire(s, need); err != nil {
			return in.ended(s, read)
		}
		defer room.Release(need)
	}
	return read()
}

// ended says why no message can be read.
func (in *Intake) ended(s *incoming, read func() error) error {
	if s.late.Load() {
		return status.Errorf(codes.DeadlineExceeded, "the request did not come within %v", in.cfg.Timeout)
	}
	return read()
}
