package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/problems"
)

// Bounds of the HTTP transport.
const (
	// MaxVersionBytes bounds a Version.
	MaxVersionBytes = 512
	// MaxDonors bounds the donors of one Fetch.
	MaxDonors = 256
	// MaxStreams bounds the connections of one Fetch to one donor.
	MaxStreams = 16
	// MaxRequests bounds the requests that a donor works on at one time;
	// more are told to come back.
	MaxRequests = 1024
	// MaxConns bounds the connections to a donor; more are closed at once.
	MaxConns = 4096
	// MaxNewcomers bounds those on which no request has proved the token yet, and
	// MaxNewcomersPerHost those of one host: a target opens Streams and some more,
	// and proves on each at once.
	MaxNewcomers        = 512
	MaxNewcomersPerHost = 128
	// DefaultAnyBytesPerSecond is what readers of Any may take: about half of
	// a network of 10 Gbit/s.
	DefaultAnyBytesPerSecond = 512 << 20

	// maxHeaderBytes bounds a request's header (net/http adds 4 KiB), and
	// idleTimeout how long a connection may say nothing between two requests.
	maxHeaderBytes = 4 << 10
	idleTimeout    = 2 * time.Minute

	// keptTokens is how many secrets a donor remembers.
	keptTokens = 16
)

// HTTPConfig says how an [HTTP] transport listens and fetches.
type HTTPConfig struct {
	// Listen is the "host:port" that targets connect to; port 0 takes a free
	// one. Empty means "127.0.0.1:0". Where other hosts reach it, it is Guarded, has a
	// Token or a TLS that asks targets for certificates, or is Open.
	Listen string

	// Advertise is the "host" or "host:port" that Metadata names. Empty means
	// the listener's own address, which must then be a specific one.
	Advertise string

	// Timeout is how long a peer may be silent in the middle of an exchange
	// before it counts as gone; 0 means 5 s. Too low takes a busy donor for a
	// dead one; too high delays going on with another. It does not bound the
	// wait for a version that is not served yet: that ends with the ctx.
	Timeout time.Duration

	// ChunkBytes is the unit of checksums and of sharing work out, between
	// MinChunkBytes and MaxChunkBytes; 0 means DefaultChunkBytes. Donors of
	// one fetch must agree on it.
	ChunkBytes int

	// Streams is the number of connections to each donor of a Fetch, at most
	// MaxStreams; 0 means 2. One stream cannot fill a fast link; many take
	// turns on the cores.
	Streams int

	// AnyBytesPerSecond limits what readers of Any take from this donor, which
	// trains meanwhile; 0 means DefaultAnyBytesPerSecond. Too high slows the
	// steps of those that train, by the network and the memory that it takes
	// from them; too low makes a joiner late, and harms nobody.
	AnyBytesPerSecond int64

	// Token is the secret that targets prove knowledge of. SetToken changes it with
	// the quorum.
	Token []byte

	// Guarded: as long as there is no token, every target is refused. Else each is
	// served then.
	Guarded bool

	// TLS makes the transport speak HTTPS, and only that; nil: plain HTTP, which
	// keeps no secret and no byte from whoever can read or write the network.
	TLS *TLS

	// Carrier moves the bytes of chunks where both sides have one; nil: HTTP does.
	Carrier Carrier

	// Listener is where targets come from, and Dial connects to donors, if not nil,
	// instead of a listener at Listen and of TCP. What is said of Listen holds for the
	// Listener's address. Close closes it.
	Listener net.Listener
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)

	// Open lets other hosts reach a transport that nothing guards: whoever comes may
	// read what it stages. Off, that is refused.
	Open bool

	// Log takes events; the zero value drops them.
	Log zerolog.Logger
}

// TLS is how the two sides of a transport know each other. Every donor and
// target of a job has one, or none has.
type TLS struct {
	// Server is the donor's side; it says whether targets need a certificate.
	Server *tls.Config
	// Client makes the target's side of a connection to host.
	Client func(host string) *tls.Config
}

// Validate returns all problems, joined.
func (c HTTPConfig) Validate() error {
	var l problems.List
	problems.NotNegative(&l, "Timeout", c.Timeout)
	l.Want(c.ChunkBytes == 0 || c.ChunkBytes >= MinChunkBytes && c.ChunkBytes <= MaxChunkBytes,
		"ChunkBytes", c.ChunkBytes, "0 or %d to %d", MinChunkBytes, MaxChunkBytes)
	problems.Within(&l, "Streams", c.Streams, 0, MaxStreams)
	problems.NotNegative(&l, "AnyBytesPerSecond", c.AnyBytesPerSecond)
	if c.Listen != "" {
		_, _, err := net.SplitHostPort(c.Listen)
		l.Want(err == nil, "Listen", c.Listen, "host:port: %w", err)
	}
	return l.Err()
}

func (c HTTPConfig) withDefaults() HTTPConfig {
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.ChunkBytes = cmp.Or(c.ChunkBytes, DefaultChunkBytes)
	c.Streams = cmp.Or(c.Streams, 2)
	c.AnyBytesPerSecond = cmp.Or(c.AnyBytesPerSecond, DefaultAnyBytesPerSecond)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: c.Timeout}).DialContext
	}
	return c
}

// HTTP is the Transport over HTTP: a donor serves its tensors as they are, a
// target fetches from all donors at once what it does not hold. Safe for
// concurrent use.
//
//	GET /v1/manifest?version=V            what V holds, and how it is cut
//	GET /v2/marks?version=V&first=I&n=N   the marks of N chunks
//	GET /v2/data?version=V&from=A&n=N     N bytes of V's data section, and their mark
//	GET /v2/carrier?version=V             an end of a Carrier, as long as the request lasts;
//	                                      /v2/data?carrier=ID sends by it
//	GET /v1/state?version=V               V as one safetensors file
//
// NewHTTP listens; Run serves until its ctx ends or Close.
type HTTP struct {
	cfg    HTTPConfig
	ln     net.Listener
	base   string // URL without trailing slash
	server *http.Server
	window *window
	// requests holds one for each that is under way; while it is full, none can begin.
	requests chan struct{}
	drained  sync.Once // by the first Run that ends
	// buffers hold what was copied in a hold and is being sent; spareBuffers to readers
	// of Any.
	buffers, spareBuffers *buffers
	pace                  *pace

	mu struct {
		sync.Mutex

		tokens  [][]byte            // the newest first, at most keptTokens
		carried map[string]*carried // by id
	}
}

var _ Transport = (*HTTP)(nil)

// NewHTTP validates cfg and listens. It starts nothing: call Run.
func NewHTTP(cfg HTTPConfig) (*HTTP, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	cfg = cfg.withDefaults()
	allowed := cfg.Guarded || cfg.Open || len(cfg.Token) > 0 || cfg.TLS != nil && netaddr.AsksClients(cfg.TLS.Server)
	listen, ln := cfg.Listen, cfg.Listener
	if ln != nil {
		listen = ln.Addr().String()
	}
	if err := netaddr.Check(context.Background(), listen, allowed, "set Token, Guarded, or a TLS that asks for certificates, or Open"); err != nil {
		return nil, fmt.Errorf("checkpoint: Listen = %s: %w", listen, err)
	}
	var err error
	if ln == nil {
		ln, err = net.Listen("tcp", listen)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for heals: %w", err)
	}
	at, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return nil, errors.Join(fmt.Errorf("checkpoint: Listener at %v, want host:port", ln.Addr()), ln.Close())
	}
	base, err := advertised(at, cfg.Advertise)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	ln = guard.Limit(ln, guard.Limits{
		MaxConns: MaxConns, MaxPerHost: MaxConns / 4,
		MaxNewcomers: MaxNewcomers, MaxNewcomersPerHost: MaxNewcomersPerHost,
	})
	t := &HTTP{
		cfg: cfg, ln: ln, base: base, window: newWindow(), requests: make(chan struct{}, MaxRequests), buffers: newBuffers(maxBuffers), spareBuffers: newBuffers(maxSpareBuffers),
		pace: &pace{perSecond: cfg.AnyBytesPerSecond},
	}
	t.mu.carried = make(map[string]*carried)
	t.SetToken(cfg.Token)
	t.server = &http.Server{
		Handler:           t.handler(),
		ReadHeaderTimeout: cfg.Timeout,
		ReadTimeout:       cfg.Timeout, // lifted once a request has proved the token
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       withConn,
		// It would answer OPTIONS itself, and read a body.
		DisableGeneralOptionsHandler: true,
		Protocols:                    new(http.Protocols),
		// It would write to standard error what every port scan leaves behind.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	t.server.Protocols.SetHTTP1(true) // one request at a time on a connection
	if cfg.TLS != nil {
		t.base = "https" + strings.TrimPrefix(t.base, "http")
		t.ln = tls.NewListener(ln, cfg.TLS.Server)
	}
	return t, nil
}

// connKey is where the context of a request has its connection.
type connKey struct{}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// proved notes that the other end of r's connection may read here.
func proved(r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		guard.Proved(conn)
	}
}

// advertised is the URL under which targets reach addr.
func advertised(addr *net.TCPAddr, advertise string) (string, error) {
	port := strconv.Itoa(addr.Port)
	if advertise == "" {
		if addr.IP.IsUnspecified() {
			return "", fmt.Errorf("checkpoint: Advertise is empty, want the host that peers dial when listening on %v", addr)
		}
		return "http://" + net.JoinHostPort(addr.IP.String(), port), nil
	}
	host := strings.Trim(advertise, "[]")
	if h, p, err := net.SplitHostPort(advertise); err == nil {
		host, port = h, p
	}
	base := "http://" + net.JoinHostPort(host, port)
	if u, err := url.Parse(base); err != nil || u.Hostname() == "" {
		return "", fmt.Errorf("checkpoint: Advertise = %q, want host or host:port", advertise)
	}
	return base, nil
}

// Run serves until ctx ends or Close, and returns nil then, once no request is
// under way any more.
func (t *HTTP) Run(ctx context.Context) error {
	t.server.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	stop := context.AfterFunc(ctx, func() { _ = t.Close() }) // Close of a server reports listener errors only
	defer stop()
	err := t.server.Serve(t.ln)
	t.drained.Do(func() {
		for range MaxRequests { // one is put in for each that leaves, and then none can begin
			t.requests <- struct{}{}
		}
	})
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve heals: %w", err)
	}
	return nil
}

// Close stops serving: requests under way are cut off. Safe to call twice, and without Run.
func (t *HTTP) Close() error {
	t.window.close()
	err := t.server.Close()
	if lerr := t.ln.Close(); err == nil && lerr != nil && !errors.Is(lerr, net.ErrClosed) {
		err = lerr
	}
	return err
}

// Metadata is this donor's base URL.
func (t *HTTP) Metadata() string { return t.base }

// SetToken replaces the secret, for reads and fetches from now on. Readers of Any
// may prove one of the last few instead: they are not in the quorum, and hear
// of a new one late.
func (t *HTTP) SetToken(token []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(token) == 0:
		t.mu.tokens = nil
	case len(t.mu.tokens) == 0 || !bytes.Equal(t.mu.tokens[0], token):
		t.mu.tokens = slices.Insert(t.mu.tokens, 0, slices.Clone(token))
		t.mu.tokens = t.mu.tokens[:min(len(t.mu.tokens), keptTokens)]
	}
}

// tokensFor are those of which a reader of v must prove one, the newest first; none:
// anybody may read. A fetch proves the newest.
func (t *HTTP) tokensFor(v Version) [][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v == Any {
		return slices.Clone(t.mu.tokens)
	}
	return slices.Clone(t.mu.tokens[:min(len(t.mu.tokens), 1)])
}

// Serve implements Transport. It costs nothing until somebody reads.
func (t *HTTP) Serve(v Version, save func() (State, error)) error {
	err := v.check()
	if err == nil {
		err = t.window.open(v, save)
	}
	if err != nil {
		return fmt.Errorf("serve state %s: %w", v, err)
	}
	return nil
}

// Pause implements Transport.
func (t *HTTP) Pause() { t.window.shut() }

// check refuses versions that are not short visible text.
func (v Version) check() error {
	if v == Any {
		return fmt.Errorf("version %q is none: it stands for any", string(v))
	}
	if v == "" || len(v) > MaxVersionBytes {
		return fmt.Errorf("version of %d bytes, want 1 to %d", len(v), MaxVersionBytes)
	}
	for _, r := range string(v) {
		if r <= ' ' || r == 0x7f || r == '\uFFFD' {
			return fmt.Errorf("version %q holds a space or control character", string(v))
		}
	}
	return nil
}
