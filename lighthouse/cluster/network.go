package cluster

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/netaddr"
)

// Network makes a server's listeners and connections: those for clients, for raft and for gossip,
// and those to other servers and to managers.
type Network interface {
	// Listen listens at "host:port"; port 0 is any free one.
	Listen(address string) (net.Listener, error)
	// ListenPacket is Listen for datagrams.
	ListenPacket(address string) (net.PacketConn, error)
	// Dial connects to "host:port"; ctx ends the try.
	Dial(ctx context.Context, address string) (net.Conn, error)
}

// Machine is the network of this machine.
func Machine() Network { return machine{} }

type machine struct{}

func (machine) Listen(address string) (net.Listener, error) { return netaddr.Listen(address) }

func (machine) ListenPacket(address string) (net.PacketConn, error) {
	return net.ListenPacket("udp", address)
}

func (machine) Dial(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// DialOptions make gRPC dial over n. Over the machine's network it dials by itself, by way of a
// proxy where there is one.
func DialOptions(n Network) []grpc.DialOption {
	if _, ok := n.(machine); ok {
		return nil
	}
	return []grpc.DialOption{grpc.WithContextDialer(n.Dial)}
}
