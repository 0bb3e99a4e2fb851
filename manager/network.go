package manager

import (
	"context"
	"net"
)

// Network makes a Manager's listeners and connections: those of its server, its
// store and its group's store, of the heal transport that it makes itself, and those to
// lighthouses and to other managers. The backend and Config.Transport bring their own.
type Network interface {
	// Listen listens at "host:port"; port 0 is any free one.
	Listen(address string) (net.Listener, error)
	// Dial connects to "host:port"; ctx ends the try.
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// storeDial is how a client of a store, or of a heal transport, connects; nil is TCP.
func storeDial(n Network) func(ctx context.Context, network, address string) (net.Conn, error) {
	if n == nil {
		return nil
	}
	return func(ctx context.Context, _, address string) (net.Conn, error) { return n.Dial(ctx, address) }
}
