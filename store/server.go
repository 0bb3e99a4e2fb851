package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/burst"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/perhost"
	"github.com/skerry-ft/skerry/internal/problems"
)

// ServerConfig says how a [Server] listens and whom it serves.
type ServerConfig struct {
	// Listener is where clients come from, if not nil; the server closes it.
	Listener net.Listener

	// Listen is the address to listen at if there is no Listener. Empty means
	// DefaultListen: loopback, any free port. Where other hosts reach a server, it
	// is Guarded, has a Token or a TLS that asks clients for certificates, or is Open.
	Listen string

	// TLS, if not nil, is spoken with every client, and nothing else: a client
	// without is told so, and PyTorch's clients, which have none, are refused.
	TLS *TLS

	// Open lets other hosts reach a server that is not guarded: whoever comes may
	// read and change every key. Off, that is refused.
	Open bool

	// Guarded: every client must prove a token that Allow has named, so
	// PyTorch's own clients are refused. A client that brings a token to an
	// unguarded server is let in without a proof.
	Guarded bool

	// Token, if not empty, is allowed for all keys from the start, and makes
	// the server guarded.
	Token []byte

	// AuthWait is how long a token that the server does not know yet is given
	// to become known: members of a quorum learn of it at different moments.
	// 0 means DefaultAuthWait. Too low refuses a member that was early; too
	// high makes the holder of a wrong token wait for its error.
	AuthWait time.Duration

	// MaxConns bounds the connections at a time; one more is closed at once.
	// 0 means DefaultMaxConns. A client of ours holds one, and one more for
	// each call that blocks. One host may have a quarter of them (loopback: all),
	// and a quarter may be of clients whose greeting is not over; with TLS 1,024 at
	// most, of one host 128.
	MaxConns int

	// StrictAdd makes Add on a key that was set an error; see the option of that
	// name. Off, as on PyTorch's own server, whose clients may rely on it. The
	// protocol cannot say why: the server ends the connection.
	StrictAdd bool

	// MaxBytes bounds what the store holds, waits included. What the commands under
	// way hold beside it may be half as much again, of which one host may have a
	// quarter (loopback: all). 0 means 4 GiB. A client that would pass it loses its connection.
	MaxBytes int64

	// Log is told of connections at debug, of refused ones at warn.
	Log zerolog.Logger
}

// Defaults of ServerConfig.
const (
	DefaultListen   = "127.0.0.1:0"
	DefaultAuthWait = 3 * time.Second
	DefaultMaxConns = 16384
)

const (
	// handshakeTimeout is how long a new connection may take to say what it is, TLS
	// included, on top of AuthWait.
	handshakeTimeout = 10 * time.Second
	// hostShare is which part of the connections, and of the bytes that commands
	// hold, one host may have; newcomerShare is which part of the connections may
	// be such whose greeting is not over.
	hostShare, newcomerShare = 4, 4
	// maxNewcomersPerHost bounds these for one host, and scarceNewcomers while
	// there are many.
	maxNewcomersPerHost, scarceNewcomers = 256, 8
	// maxShaking and maxShakingPerHost bound them where they are in a TLS handshake, which
	// holds about 25 KiB once a hello has come.
	maxShaking, maxShakingPerHost = 1024, 128
	// writeTimeout ends a connection whose client does not read its answers.
	writeTimeout = 30 * time.Second
	// sampleBurst lines that strangers cause are logged in each samplePeriod.
	sampleBurst  = 50
	samplePeriod = 10 * time.Second
	// acceptPause is between two tries when the process is out of descriptors.
	acceptPause = 50 * time.Millisecond
)

// Validate returns all problems of the configuration.
func (c *ServerConfig) Validate() error {
	var l problems.List
	problems.NotNegative(&l, "AuthWait", c.AuthWait)
	problems.NotNegative(&l, "MaxConns", c.MaxConns)
	problems.NotNegative(&l, "MaxBytes", c.MaxBytes)
	l.Short("Token", len(c.Token), MaxTokenBytes)
	l.Add(c.TLS.validate())
	return l.Err()
}

// checkListen refuses a server that strangers would reach.
func (c *ServerConfig) checkListen() error {
	listen := c.Listen
	if c.Listener != nil {
		tcp, ok := c.Listener.Addr().(*net.TCPAddr)
		if !ok {
			return nil // not of the network
		}
		listen = tcp.String()
	}
	allowed := c.Guarded || c.Open || c.TLS.AsksClients()
	err := netaddr.Check(context.Background(), listen, allowed, "set Token or a TLS that asks clients for certificates, or Open to let whoever comes read and change every key")
	if err != nil {
		return fmt.Errorf("Listen = %s: %w", listen, err)
	}
	return nil
}

func (c *ServerConfig) defaults() {
	c.Listen = cmp.Or(c.Listen, DefaultListen)
	c.AuthWait = cmp.Or(c.AuthWait, DefaultAuthWait)
	c.MaxConns = cmp.Or(c.MaxConns, DefaultMaxConns)
	c.MaxBytes = cmp.Or(c.MaxBytes, defaultMaxBytes)
	if len(c.Token) > 0 {
		c.Guarded = true
	}
}

// Server serves one store over TCP, in PyTorch's TCPStore protocol. All
// methods are safe for concurrent use.
//
// Goroutines: one per connection, and one more per connection that waits for a
// key. Run starts them and waits for them.
type Server struct {
	cfg       ServerConfig
	ln        net.Listener
	t         *table
	grants    *grants
	purse     *perhost.Counter // bytes of commands under way
	places    *perhost.Counter // connections
	newcomers *perhost.Counter // those whose greeting is not over
	sampled   zerolog.Logger   // for lines that strangers cause
	stop      chan struct{}    // closed by shut
	done      chan struct{}    // closed when Run has returned

	mu struct {
		sync.Mutex
		conns   map[*serverConn]struct{}
		running bool
		closed  bool
	}
}

// NewServer listens, so that Addr is known; Run serves. Clients that come before Run
// wait for it: a program that forgets Run keeps PyTorch's for ever, and ours until
// their greeting times out.
func NewServer(cfg ServerConfig) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("store server: %w", err)
	}
	cfg.defaults()
	s := newServer(cfg)
	if len(cfg.Token) > 0 {
		s.grants.allow("", cfg.Token)
	}
	if err := cfg.checkListen(); err != nil {
		return nil, fmt.Errorf("store server: %w", err)
	}
	if s.ln == nil {
		ln, err := net.Listen("tcp", cfg.Listen)
		if err != nil {
			return nil, fmt.Errorf("store server: %w", err)
		}
		s.ln = ln
	}
	return s, nil
}

// newPurse is what the commands under way may hold, while the store may hold
// most: a value that grows as it comes is held twice for a moment.
func newPurse(most int64) *perhost.Counter {
	all := most + most/2
	return perhost.New(perhost.Limits{Max: all, PerHost: max(all/hostShare, 2*MaxValueBytes)})
}

// newServer makes one that does not listen.
func newServer(cfg ServerConfig) *Server {
	conns := int64(cfg.MaxConns)
	newcomers := perhost.Limits{Max: max(conns/newcomerShare, 1), PerHost: maxNewcomersPerHost, Scarce: scarceNewcomers}
	if cfg.TLS != nil {
		newcomers.Max, newcomers.PerHost = min(newcomers.Max, maxShaking), maxShakingPerHost
	}
	s := &Server{
		cfg:       cfg,
		ln:        cfg.Listener,
		t:         newTable(cfg.MaxBytes),
		grants:    newGrants(),
		purse:     newPurse(cfg.MaxBytes),
		places:    perhost.New(perhost.Limits{Max: conns, PerHost: max(conns/hostShare, 1)}),
		newcomers: perhost.New(newcomers),
		sampled:   cfg.Log.Sample(&burst.Sampler{Lines: sampleBurst, Period: samplePeriod}),
		stop:      make(chan struct{}),
		done:      make(chan struct{}),
	}
	s.t.strictAdd = cfg.StrictAdd
	s.mu.conns = make(map[*serverConn]struct{})
	return s
}

// Addr is "host:port" as the listener says it.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Local is the same store without a connection, for the process that serves
// it. It needs no token. Its Close does nothing.
func (s *Server) Local() *Hash { return newHash(s.t, keySlash, false) }

// Allow lets holders of token use the keys under prefix; an empty prefix means
// all keys. Named again, a token gets the new prefix for new connections. It
// matters on a guarded server only.
func (s *Server) Allow(prefix string, token []byte) error {
	if err := checkToken(token); err != nil {
		return err
	}
	if err := checkKeys(len(keySlash), prefix); err != nil {
		return err
	}
	s.grants.allow(prefix, token)
	return nil
}

// Forget ends what Allow began: the token is refused, and the connections that
// came in with it are closed, so that the calls of their clients fail.
func (s *Server) Forget(token []byte) {
	id := idOf(token)
	s.grants.forget(id)
	s.mu.Lock()
	var doomed []*serverConn
	for c := range s.mu.conns {
		if c.heldBy(id) {
			doomed = append(doomed, c)
		}
	}
	s.mu.Unlock()
	for _, c := range doomed {
		c.end()
	}
}

// Run serves until ctx ends or Close is called, then ends every connection,
// and every wait with it, and returns nil once all is quiet. It returns an
// error only if it cannot accept clients any more, or runs already.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.mu.running || s.mu.closed {
		s.mu.Unlock()
		return fmt.Errorf("run store server: %w", ErrClosed)
	}
	s.mu.running = true
	s.mu.Unlock()
	defer close(s.done)

	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-ctx.Done():
		case <-s.stop:
		}
		s.shut()
	})
	err := s.accept(&wg)
	cancel()
	wg.Wait()
	return err
}

// accept takes clients until the listener is closed.
func (s *Server) accept(wg *sync.WaitGroup) error {
	said := "" // not again for every try
	for {
		nc, err := s.ln.Accept()
		switch {
		case err == nil:
			said = ""
			s.admit(nc, wg)
		case s.isClosed():
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("store server at %s: %w", s.Addr(), err)
		default:
			// Out of descriptors, or a client that left already: go on, slowly.
			if said != err.Error() {
				said = err.Error()
				s.cfg.Log.Warn().Err(err).Msg("store accept failed")
			}
			select {
			case <-time.After(acceptPause):
			case <-s.stop:
			}
		}
	}
}

func (s *Server) admit(nc net.Conn, wg *sync.WaitGroup) {
	c := newServerConn(s, nc)
	if err := s.enter(c); err != nil {
		reset(nc)
		s.sampled.Warn().Err(err).Str("peer", nc.RemoteAddr().String()).Msg("store client turned away")
		return
	}
	wg.Go(func() {
		err := c.serve()
		s.mu.Lock()
		delete(s.mu.conns, c)
		s.mu.Unlock()
		c.newcomer.Leave()
		c.place.Leave()
		c.log(err)
	})
}

// enter takes the places of a new connection.
func (s *Server) enter(c *serverConn) (err error) {
	addr := c.raw.RemoteAddr()
	if c.place, err = s.places.Enter(addr); err != nil {
		return err
	}
	if c.newcomer, err = s.newcomers.Enter(addr); err != nil {
		c.place.Leave()
		return fmt.Errorf("before the greeting: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		c.newcomer.Leave()
		c.place.Leave()
		return ErrClosed
	}
	s.mu.conns[c] = struct{}{}
	return nil
}

// reset closes nc so that the client sees a connection that broke, and tries again,
// not a server that has heard it and does not want it.
func reset(nc net.Conn) {
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok { // a *tls.Conn
		nc = t.NetConn()
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it a client gives up sooner
	}
	nc.Close() //nolint:errcheck // nothing was said on it
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.closed
}

// shut closes everything once: the table, so that local waits end too, the
// listener, the connections.
func (s *Server) shut() {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return
	}
	s.mu.closed = true
	close(s.stop)
	conns := slices.Collect(maps.Keys(s.mu.conns))
	s.mu.Unlock()

	s.ln.Close() //nolint:errcheck // Accept tells
	for _, c := range conns {
		c.end()
	}
	s.t.close()
}

// Close ends Run, waits for it, and releases the listener. Safe to call twice,
// and before Run.
func (s *Server) Close() error {
	s.shut()
	s.mu.Lock()
	running := s.mu.running
	s.mu.Unlock()
	if running {
		<-s.done
	}
	return nil
}
