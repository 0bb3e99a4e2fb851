package guard_test

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"testing"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
)

// TestServerNameOverRPC: the name that certificates of servers must carry is that of
// TLSServerName for RPC as well, whatever address is dialled.
func TestServerNameOverRPC(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	o := c.Options(t, guard.Replica, "client")
	c.Sign(t, guard.Party{Role: guard.Replica}, "shared", "skerry.cluster")
	o.TLSCert, o.TLSKey = filepath.Join(c.Dir, "shared.pem"), filepath.Join(c.Dir, "shared.key")
	server := guardtest.Open(t, o)
	for _, tc := range []struct {
		name, authority string
		ok              bool
	}{
		{"skerry.cluster", "10.1.2.3:29510", true},
		{"skerry.cluster", "[fd00::1]:29510", true},
		{"", "skerry.cluster:29510", true},
		{"", "10.1.2.3:29510", false},
		{"another.cluster", "skerry.cluster:29510", false},
	} {
		o.TLSServerName = tc.name
		client := guardtest.Open(t, o)
		ours, theirs := net.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = tls.Server(theirs, server.Server()).Handshake() // the client's error tells
			_ = theirs.Close()
		}()
		conn, _, err := client.TLS.Credentials(guard.Party{Role: guard.Replica}).ClientHandshake(t.Context(), tc.authority, ours)
		if (err == nil) != tc.ok {
			t.Errorf("TLSServerName = %q, dialled %s: %v", tc.name, tc.authority, err)
		}
		if err == nil {
			_ = conn.Close() // nothing is lost with it
		}
		_ = ours.Close()
		<-served
	}
}
