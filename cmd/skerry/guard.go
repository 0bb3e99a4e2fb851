package main

import (
	"net/http"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/guardflags"
	"github.com/skerry-ft/skerry/internal/guard"
)

// tlsTimeout bounds a TLS connection, handshake included.
const tlsTimeout = 5 * time.Second

// openGuard reads what the flags and the environment name.
func openGuard(o guard.Options) (*guard.Guard, error) {
	if err := guardflags.Apply(&o); err != nil {
		return nil, err
	}
	return guard.Open(o)
}

// guardScheme is how a lighthouse of that guard is asked over HTTP.
func guardScheme(g *guard.Guard) string {
	if g.TLS != nil {
		return "https://"
	}
	return "http://"
}

// guardTransport carries one HTTP request.
func guardTransport(g *guard.Guard) *http.Transport {
	t := &http.Transport{DisableKeepAlives: true}
	if g.TLS != nil {
		t.DialTLSContext = g.TLS.DialContext(guard.Party{Role: guard.Lighthouse}, tlsTimeout)
	}
	return t
}
