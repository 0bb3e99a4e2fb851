package manager

import (
	"context"
	"net"

	"google.golang.org/grpc"
)

// Network makes a Manager's listeners and connections: those of its server, its
// store and its group's store, and those to lighthouses and to other managers.
// The backend and the heal transport bring their own.
type Network interface {
	// Listen listens at "host:port"; port 0 is any free one.
	Listen(address string) (net.Listener, error)
	// Dial connects to "host:port"; ctx ends the try.
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// listen listens on n, or on TCP if there is none.
func listen(n Network, address string) (net.Listener, error) {
	if n == nil {
		return net.Listen("tcp", address)
	}
	return n.Listen(address)
}

// dialsBy makes RPC connections use n; without one, gRPC dials TCP by itself.
func dialsBy(n Network) []grpc.DialOption {
	if n == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithContextDialer(n.Dial)}
}

// storeDial is how a client of a store connects; nil is TCP.
func storeDial(n Network) func(ctx context.Context, network, address string) (net.Conn, error) {
	if n == nil {
		return nil
	}
	return func(ctx context.Context, _, address string) (net.Conn, error) { return n.Dial(ctx, address) }
}
