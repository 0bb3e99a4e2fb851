package netaddr_test

import (
	"crypto/tls"
	"errors"
	"testing"

	"github.com/skerry-ft/skerry/internal/netaddr"
)

// A server asks its clients for certificates if its configuration, or the one that it
// chooses for a client, refuses those that show none.
func TestAsksClients(t *testing.T) {
	t.Parallel()
	chosen := func(c *tls.Config, err error) *tls.Config {
		return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c, err }}
	}
	asks := func(a tls.ClientAuthType) *tls.Config { return &tls.Config{ClientAuth: a} }
	looks := asks(tls.RequireAnyClientCert)
	looks.VerifyConnection = func(tls.ConnectionState) error { return nil }
	own := asks(tls.RequireAndVerifyClientCert)
	own.GetConfigForClient = chosen(nil, nil).GetConfigForClient
	byConn := &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		return nil, errors.New(hello.Conn.RemoteAddr().String())
	}}
	for name, tc := range map[string]struct {
		server *tls.Config
		want   bool
	}{
		"no TLS":             {nil, false},
		"no certificate":     {&tls.Config{}, false},
		"one that may come":  {asks(tls.RequestClientCert), false},
		"one that is looked": {asks(tls.VerifyClientCertIfGiven), false},
		"anybody's":          {asks(tls.RequireAnyClientCert), false},
		"that is looked at":  {looks, true},
		"of the CA":          {asks(tls.RequireAndVerifyClientCert), true},
		"chosen":             {chosen(asks(tls.RequireAndVerifyClientCert), nil), true},
		"chosen, none":       {chosen(asks(tls.VerifyClientCertIfGiven), nil), false},
		"chosen as it is":    {own, true},
		"by connection":      {byConn, false},
		"no choice":          {chosen(nil, errors.New("no files")), false},
	} {
		if got := netaddr.AsksClients(tc.server); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
