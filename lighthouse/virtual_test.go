package lighthouse_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// virtual is a test in a synctest bubble, with a network in memory: start and dial go by
// it.
type virtual struct {
	*testing.T

	host *nettest.Host
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, test func(t *virtual)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&virtual{T: t, host: nettest.New().Host("all")}) })
}

// start is lighthousetest.Start, in the bubble's network if t has one.
func start(t testing.TB, change func(*lighthouse.Config)) *lighthousetest.Server {
	t.Helper()
	v, ok := t.(*virtual)
	if !ok {
		return lighthousetest.Start(t, change)
	}
	return lighthousetest.Start(t, func(c *lighthouse.Config) {
		if change != nil {
			change(c)
		}
		ln, err := v.host.Listen(c.Listen)
		if err != nil {
			t.Fatal(err)
		}
		c.Listener, c.Listen = ln, ln.Addr().String()
	})
}

// httpClient makes each request over a connection of its own, in the bubble's network if t has one.
func httpClient(t testing.TB) *http.Client {
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	if v, ok := t.(*virtual); ok {
		transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) { return v.host.Dial(ctx, address) }
	}
	return &http.Client{Transport: transport}
}
