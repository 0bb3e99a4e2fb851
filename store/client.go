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

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/problems"
)

// ClientConfig says how a [Client] reaches its server.
type ClientConfig struct {
	// Token is proved to a guarded server; see ServerConfig. A server of ours
	// that is not guarded takes any. Leave it empty for PyTorch's own server.
	Token []byte

	// Timeout is the default timeout, of Dial too; SetTimeout changes it.
	// 0 means DefaultTimeout.
	Timeout time.Duration

	// WorldSize is the number of clients that will come, if it is known. Each
	// one counts itself at the server under PyTorch's key.
	WorldSize int

	// WaitForWorkers: Dial returns when WorldSize clients have come. Who holds
	// the server waits like this, so that it does not leave before the others
	// have arrived.
	WaitForWorkers bool

	// MaxConns bounds the connections of this client, and so the calls that
	// may block at a time, which is one less. 0 means DefaultClientConns.
	MaxConns int

	// TLS, if not nil, is spoken on every connection, and nothing else: a server
	// that does not is left at once.
	TLS *TLS

	// Dial opens connections, if not nil: a test's pipe. TLS goes over them.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// DefaultClientConns bounds the connections of one client.
const DefaultClientConns = 256

const (
	// maxIdle is how many connections a client keeps for its next calls.
	maxIdle = 4
	// While nobody listens yet, Dial tries again, first soon, then slower.
	redialFirst = 5 * time.Millisecond
	redialMost  = 500 * time.Millisecond
	// dialTimeout bounds one try: a lost SYN must not eat the whole time.
	dialTimeout = 10 * time.Second
	// pingTimeout bounds the first answer of a server; a server that lets a
	// token become known takes ServerConfig.AuthWait longer.
	pingTimeout = 30 * time.Second
	// workersPoll is between two looks at the number of workers.
	workersPoll = 10 * time.Millisecond
)

// Validate returns all problems of the configuration.
func (c *ClientConfig) Validate() error {
	var l problems.List
	problems.NotNegative(&l, "Timeout", c.Timeout)
	problems.NotNegative(&l, "WorldSize", c.WorldSize)
	l.Want(!c.WaitForWorkers || c.WorldSize > 0, "WorldSize", c.WorldSize, "1 or more with WaitForWorkers")
	l.Want(c.MaxConns >= 0 && c.MaxConns != 1, "MaxConns", c.MaxConns, "0, or 2 or more")
	l.Short("Token", len(c.Token), MaxTokenBytes)
	l.Add(c.TLS.validate())
	return l.Err()
}

// Client is a store on a [Server], or on PyTorch's own. It is safe for
// concurrent use. A server answers one connection's requests in order, so each
// call has a connection to itself while it lasts, taken from a small pool; a
// call that blocks holds up nobody. Calls without a result (Set, Append, Push,
// MultiSet) return when the server has carried them out.
//
// It starts no goroutines. A connection that fails fails its call with
// ErrClosed, and the next call dials again.
type Client struct {
	verbs
	patience

	addr  string
	cfg   ClientConfig
	slots chan struct{} // one per connection in use
	waits chan struct{} // one per call that may block: one less than slots
	stop  chan struct{} // closed by Close

	mu struct {
		sync.Mutex
		conns  map[*clientConn]struct{} // all
		idle   []*clientConn
		closed bool
	}
}

// Dial connects to the server at "host:port", and tries again while nobody
// listens there, until ctx ends or the timeout has passed.
//
// Errors: ErrUnauthorized; ErrTLS; context errors, joined with why the last try did
// not work; an error at once for a server that speaks another protocol.
func Dial(ctx context.Context, addr string, cfg ClientConfig) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("dial store %s: %w", addr, err)
	}
	cfg.MaxConns = cmp.Or(cfg.MaxConns, DefaultClientConns)
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	c := &Client{
		addr:  addr,
		cfg:   cfg,
		slots: make(chan struct{}, cfg.MaxConns),
		waits: make(chan struct{}, cfg.MaxConns-1),
		stop:  make(chan struct{}),
	}
	c.verbs = verbs{raw: c, base: len(keySlash)}
	c.mu.conns = make(map[*clientConn]struct{})
	c.SetTimeout(cfg.Timeout)
	ctx, cancel := c.bound(ctx)
	defer cancel()
	if err := c.arrive(ctx); err != nil {
		c.Close() //nolint:errcheck // err says more
		return nil, fmt.Errorf("dial store %s: %w", addr, err)
	}
	return c, nil
}

// Open connects to the store at "host:port" or "host:port/prefix" and returns
// the view of it under the prefix. Closing the view closes the connection.
func Open(ctx context.Context, address string, cfg ClientConfig) (Store, error) {
	a, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	c, err := Dial(ctx, a.HostPort(), cfg)
	if err != nil {
		return nil, err
	}
	return &prefixed{below: c, prefix: joinPrefix(a.Prefix), owned: true}, nil
}

// arrive makes the first connection, and counts this worker.
func (c *Client) arrive(ctx context.Context) error {
	if err := c.firstConn(ctx); err != nil || c.cfg.WorldSize == 0 {
		return err
	}
	came, err := c.addRaw(ctx, initKey, 1)
	if err != nil {
		return fmt.Errorf("count workers: %w", err)
	}
	for c.cfg.WaitForWorkers && came < int64(c.cfg.WorldSize) {
		now := came
		if err = backoff.Sleep(ctx, workersPoll); err == nil {
			now, err = c.addRaw(ctx, initKey, 0)
		}
		if err != nil {
			return fmt.Errorf("wait for workers: %d of %d workers came: %w", came, c.cfg.WorldSize, err)
		}
		came = now
	}
	return nil
}

// firstConn dials until somebody listens.
func (c *Client) firstConn(ctx context.Context) error {
	var last error // why a try did not work that had the time

	// Many ranks wait for one server: they should not come in step.
	pauses := backoff.Backoff{First: redialFirst, Most: redialMost, Spread: true}
	for {
		conn, err := c.connect(ctx)
		if err == nil {
			c.put(conn)
			return nil
		}
		if errors.Is(err, errGreeting) {
			return fmt.Errorf("%w: %w: it asks for a token, or does not speak PyTorch's protocol of today",
				ErrUnauthorized, err)
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if _, later := errors.AsType[*net.OpError](err); !later && ctx.Err() == nil {
			return err
		}
		if err := pauses.Wait(ctx); err != nil {
			return fmt.Errorf("%w (last try: %w)", err, last)
		}
	}
}

func (c *Client) enter(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.stop:
		return ErrClosed
	}
}

// take takes a connection out of the pool, or makes one.
func (c *Client) take(ctx context.Context) (*clientConn, error) {
	c.mu.Lock()
	if n := len(c.mu.idle); n > 0 && !c.mu.closed {
		conn := c.mu.idle[n-1]
		c.mu.idle = c.mu.idle[:n-1]
		c.mu.Unlock()
		return conn, nil
	}
	c.mu.Unlock()
	return c.connect(ctx)
}

// adopt makes conn one that Close closes.
func (c *Client) adopt(conn *clientConn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return ErrClosed
	}
	c.mu.conns[conn] = struct{}{}
	return nil
}

// put takes a connection that is in good order back into the pool.
func (c *Client) put(conn *clientConn) {
	c.mu.Lock()
	keep := !c.mu.closed && len(c.mu.idle) < maxIdle
	if keep {
		c.mu.idle = append(c.mu.idle, conn)
	}
	c.mu.Unlock()
	if !keep {
		c.discard(conn)
	}
}

// discard drops a connection: it is not needed, or its state is not known.
func (c *Client) discard(conn *clientConn) {
	c.mu.Lock()
	delete(c.mu.conns, conn)
	c.mu.Unlock()
	conn.close()
}

// Close ends all calls under way with ErrClosed. Safe to call twice.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.mu.closed {
		c.mu.Unlock()
		return nil
	}
	c.mu.closed = true
	close(c.stop)
	all := slices.Collect(maps.Keys(c.mu.conns))
	c.mu.Unlock()
	for _, conn := range all {
		conn.close()
	}
	return nil
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.closed
}

// call runs do on a connection of its own under a deadline. An error ends the
// connection, but for one that do marks clean.
func (c *Client) call(ctx context.Context, blocking bool, do func(context.Context, *clientConn) error) error {
	if c.isClosed() {
		return ErrClosed
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	if err := ended(ctx); err != nil {
		return err
	}
	if blocking { // those that block leave one connection to the others
		if err := c.enter(ctx, c.waits); err != nil {
			return c.explain(ctx, err)
		}
		defer func() { <-c.waits }()
	}
	if err := c.enter(ctx, c.slots); err != nil {
		return c.explain(ctx, err)
	}
	defer func() { <-c.slots }()
	conn, err := c.take(ctx)
	if err != nil {
		return c.explain(ctx, err)
	}
	stop := context.AfterFunc(ctx, conn.interrupt)
	err = do(ctx, conn)
	clean, isClean := errors.AsType[*cleanError](err)
	quiet := stop() // else the interrupt may still be on its way
	if quiet && (err == nil || isClean) || isClean && clean.interrupted {
		c.put(conn)
	} else {
		c.discard(conn)
	}
	switch {
	case err == nil:
		return nil
	case isClean:
		return clean.err
	}
	return c.explain(ctx, err)
}

// explain turns what a connection reports into what the caller wants to know:
// that it ran out of time, that the store was closed, that the server left.
func (c *Client) explain(ctx context.Context, err error) error {
	if cause := ended(ctx); cause != nil {
		return cause
	}
	if c.isClosed() {
		return ErrClosed
	}
	if errors.Is(err, ErrClosed) || errors.Is(err, ErrUnauthorized) ||
		errors.Is(err, ErrTLS) || errors.Is(err, errProtocol) {
		return err
	}
	return fmt.Errorf("%w: server %s: %w", ErrClosed, c.addr, err)
}
