package replica

import (
	"context"
	"net"
	"slices"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/wire"
)

// Network makes listeners and connections; it is manager.Network.
type Network interface {
	Listen(address string) (net.Listener, error)
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// Listen listens on n, or on TCP if there is none.
func Listen(n Network, address string) (net.Listener, error) {
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

// Dial returns a connection to another manager, of to's job, at "host:port"; it is made by
// the first call. A new one each time, so that no backoff of an old one delays
// it. Proofs hold for that address alone: a server that receives one cannot use it
// elsewhere.
func Dial(g *guard.Guard, n Network, to guard.Party, addr string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	addr = netaddr.HostPort(addr)
	options := slices.Concat(wire.DialOptions(), g.DialOptions(to, addr), dialsBy(n), more)
	return grpc.NewClient("passthrough:///"+addr, options...)
}

// dialLighthouse returns a connection to a lighthouse server, which may answer to
// several addresses.
func (r *Replica) dialLighthouse(addr string) (*grpc.ClientConn, error) {
	options := slices.Concat(wire.DialOptions(), r.cfg.Guard.DialOptions(guard.Party{Role: guard.Lighthouse}, ""), dialsBy(r.cfg.Network))
	return grpc.NewClient("passthrough:///"+netaddr.HostPort(addr), options...)
}
