package integration

import (
	"net"
	"sync"
	"testing"
)

// proxy passes TCP connections on, until it drops all that flows through it in
// both directions, or refuses and breaks everything, as a network does.
type proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	target string
	closed bool
	broken bool
	open   chan struct{} // closed while bytes may pass
	conns  map[net.Conn]struct{}
}

// newProxy listens on loopback. It passes nothing before target was called.
func newProxy(t *testing.T) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, open: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	close(p.open)
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// leadTo says where connections are passed on to.
func (p *proxy) leadTo(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// swallow lets no byte pass in either direction; connections stay, and new ones
// are taken, as behind a switch that drops everything.
func (p *proxy) swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
}

// cut breaks all connections and every new one at once.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = true
	for conn := range p.conns {
		_ = conn.Close() // that is the point
	}
}

// heal passes on what was held back, and everything new.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = false
	p.openLocked()
}

func (p *proxy) openLocked() {
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close() // the test is over
	for conn := range p.conns {
		_ = conn.Close() // likewise
	}
	p.openLocked()
	p.mu.Unlock()
	p.running.Wait()
}

// keep notes a connection, so that cut and close find it; false: it is closed.
func (p *proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.broken {
		_ = conn.Close() // it is not wanted
		return false
	}
	p.conns[conn] = struct{}{}
	return true
}

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.keep(near) {
			p.running.Go(func() { p.pass(near) })
		}
	}
}

// pass connects to the target and copies both ways until either side ends.
func (p *proxy) pass(near net.Conn) {
	defer p.drop(near)
	<-p.gate()
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	far, err := net.Dial("tcp", target)
	if err != nil || !p.keep(far) {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			p.copy(way[1], way[0])
			p.drop(near)
			p.drop(far)
		})
	}
	both.Wait()
}

func (p *proxy) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		<-p.gate()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) gate() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

func (p *proxy) drop(conn net.Conn) {
	_ = conn.Close() // nothing more comes
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}
