// Package network is what a lighthouse server dials and listens over.
package network

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/netaddr"
)

// Network makes a server's listeners and connections: those for clients, for raft and for gossip,
// and those to other servers and to managers. Addresses are those of package net: *net.TCPAddr and
// *net.UDPAddr.
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

// packetBuffer holds what comes while this process is not on a processor: a server that does not
// answer gossip's probes in time is taken for dead.
const packetBuffer = 2 << 20

func (machine) Listen(address string) (net.Listener, error) { return netaddr.Listen(address) }

func (machine) ListenPacket(address string) (net.PacketConn, error) {
	socket, err := net.ListenPacket("udp", address)
	if udp, ok := socket.(*net.UDPConn); ok {
		_ = udp.SetReadBuffer(packetBuffer) // what the machine gives of it is enough
	}
	return socket, err
}

func (machine) Dial(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// portTries is how many free ports ListenBoth tries: one may be free for streams and taken for
// datagrams.
const portTries = 10

// ListenBoth listens at one port for streams and for datagrams.
func ListenBoth(n Network, address string) (net.Listener, net.PacketConn, error) {
	host, asked, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, err
	}
	for tries := 1; ; tries++ {
		listener, err := n.Listen(address)
		if err != nil {
			return nil, nil, err
		}
		_, port, _ := net.SplitHostPort(listener.Addr().String()) // a listener's address has one
		socket, err := n.ListenPacket(net.JoinHostPort(host, port))
		if err == nil {
			return listener, socket, nil
		}
		err = errors.Join(err, listener.Close())
		if asked != "0" || tries == portTries {
			return nil, nil, err
		}
	}
}

// DialOptions make gRPC dial over n. Over the machine's network it dials by itself, by way of a
// proxy where there is one.
func DialOptions(n Network) []grpc.DialOption {
	if _, ok := n.(machine); ok {
		return nil
	}
	return []grpc.DialOption{grpc.WithContextDialer(n.Dial)}
}
