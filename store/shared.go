package store

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/skerry-ft/skerry/internal/problems"
)

// shared is the one registry of this package: the servers that several users
// in this process serve together, by address. It is what PyTorch's
// multi-tenant option has, and why two libraries of one process can both "be
// the master" of one address.
var shared struct {
	sync.Mutex
	byAddr map[string]*sharedServer
}

// sharedServer is a server with several users. The last one out closes it.
type sharedServer struct {
	s    *Server
	key  string // in the registry; empty for a free port, which nobody can name
	once sync.Once
	wg   sync.WaitGroup // the goroutine that runs s
	err  error          // of s.Run; read after done
	done chan struct{}  // closed when s.Run has returned

	users int // guarded by the registry
}

// Share is one user's part in a server that several users of this process may
// have at one address. Safe for concurrent use.
type Share struct {
	*Server
	common *sharedServer
	once   sync.Once
	left   chan struct{} // closed by Close
}

// NewShared is NewServer, unless this process already serves cfg.Listen
// through NewShared: then it joins that server, and the rest of cfg does not
// matter, but a Token is allowed there too. Port 0 is always a new server.
func NewShared(cfg ServerConfig) (*Share, error) {
	if cfg.Listener != nil {
		return nil, fmt.Errorf("shared store server: Listener = %v, want none: say Listen", cfg.Listener.Addr())
	}
	cfg.defaults()
	key, err := sharedKey(cfg.Listen)
	if err != nil {
		return nil, err
	}
	shared.Lock()
	defer shared.Unlock()
	common := shared.byAddr[key]
	if key == "" || common == nil {
		s, err := NewServer(cfg)
		if err != nil {
			return nil, err
		}
		common = &sharedServer{s: s, key: key, done: make(chan struct{})}
		if key != "" {
			if shared.byAddr == nil {
				shared.byAddr = make(map[string]*sharedServer)
			}
			shared.byAddr[key] = common
		}
	} else if err := common.fits(cfg); err != nil {
		return nil, err
	} else if len(cfg.Token) > 0 {
		common.s.grants.allow("", cfg.Token)
	}
	common.users++
	return &Share{Server: common.s, common: common, left: make(chan struct{})}, nil
}

// fits says what another user asks of the server that it is not.
func (c *sharedServer) fits(cfg ServerConfig) error {
	l := problems.List{Prefix: fmt.Sprintf("shared store server at %s: ", cfg.Listen)}
	same := func(field string, got, has bool) {
		l.Want(got == has, field, got, "%t as the users before", has)
	}
	same("Guarded", cfg.Guarded, c.s.cfg.Guarded)
	same("StrictAdd", cfg.StrictAdd, c.s.cfg.StrictAdd)
	same("TLS", cfg.TLS != nil, c.s.cfg.TLS != nil)
	return l.Err()
}

// sharedKey is one spelling for an address; empty if its port is free choice.
func sharedKey(listen string) (string, error) {
	a, err := net.ResolveTCPAddr("tcp", listen)
	switch {
	case err != nil:
		return "", fmt.Errorf("shared store server: %w", err)
	case a.Port == 0:
		return "", nil
	}
	return a.String(), nil
}

// Run serves until ctx ends or the share is closed. The server itself goes on
// while another user has it.
func (h *Share) Run(ctx context.Context) error {
	c := h.common
	c.once.Do(func() {
		c.wg.Go(func() {
			defer close(c.done)
			// Not this user's ctx: the last one out closes the server.
			c.err = c.s.Run(context.WithoutCancel(ctx))
		})
	})
	select {
	case <-ctx.Done():
	case <-h.left:
	case <-c.done:
		return c.err
	}
	return h.Close()
}

// Close gives the share up. The last one closes the server and waits for it.
func (h *Share) Close() error {
	var err error
	h.once.Do(func() {
		close(h.left)
		err = h.common.leave()
	})
	return err
}

func (c *sharedServer) leave() error {
	shared.Lock()
	c.users--
	last := c.users == 0
	if last && c.key != "" {
		delete(shared.byAddr, c.key)
		// Under the lock, for whoever comes next listens at the same address.
		c.s.shut()
	}
	shared.Unlock()
	if !last {
		return nil
	}
	err := c.s.Close()
	c.wg.Wait()
	return err
}
