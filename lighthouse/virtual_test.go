package lighthouse_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/internal/network"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// virtual is a test in a synctest bubble, with a network in memory: start and dial go by
// it.
type virtual struct {
	*testing.T

	network *nettest.Network
	host    *nettest.Host // of the clients, and of servers alone
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, test func(t *virtual)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := nettest.New()
		test(&virtual{T: t, network: n, host: n.Host("all")})
	})
}

// start is lighthousetest.Start, in the bubble's network if t has one.
func start(t testing.TB, change func(*lighthouse.Config)) *lighthousetest.Server {
	t.Helper()
	return lighthousetest.Start(t, func(c *lighthouse.Config) {
		c.Network = networkOf(t)
		if change != nil {
			change(c)
		}
	})
}

// startCluster is lighthousetest.StartCluster, in the bubble's network if t has one, with a host
// for each server: "server-0" and so on.
func startCluster(t testing.TB, n int, o lighthousetest.Options) *lighthousetest.Cluster {
	t.Helper()
	if v, ok := t.(*virtual); ok {
		o.Network = func(i int) network.Network { return v.network.Host(fmt.Sprintf("server-%d", i)) }
	}
	return lighthousetest.StartCluster(t, n, o)
}

// networkOf is what a test goes by: the bubble's network if t has one.
func networkOf(t testing.TB) network.Network {
	if v, ok := t.(*virtual); ok {
		return v.host
	}
	return network.Machine()
}

// httpTransport makes each request over a connection of its own.
func httpTransport(t testing.TB) *http.Transport {
	n := networkOf(t)
	dial := func(ctx context.Context, _, address string) (net.Conn, error) { return n.Dial(ctx, address) }
	return &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true}
}

func httpClient(t testing.TB) *http.Client { return &http.Client{Transport: httpTransport(t)} }
