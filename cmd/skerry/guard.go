package main

import (
	"net/http"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
)

// tlsTimeout bounds a TLS connection, handshake included.
const tlsTimeout = 5 * time.Second

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
