package guard_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
)

const patience = 20 * time.Second

// toServer is what the clients here dial.
var toServer = guard.Party{Role: guard.Lighthouse}

// shake makes one handshake over loopback and returns what each side says of it.
func shake(t *testing.T, server *guard.Guard, client *tls.Config) (state *tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	if !server.Anonymous { // as the manager's server does
		return shakeWith(t, server.Server(), client)
	}
	return shaken(t, func(conn net.Conn) (*tls.ConnectionState, error) {
		secured, err := server.Secure(context.Background(), conn, patience)
		if err != nil {
			return nil, err
		}
		_, err = secured.Write([]byte("hi"))
		return secured.TLSState(), err
	}, client)
}

// shakeWith is shake with a server of that configuration.
func shakeWith(t *testing.T, server, client *tls.Config) (state *tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	return shaken(t, func(conn net.Conn) (*tls.ConnectionState, error) {
		secured := tls.Server(conn, server)
		if err := secured.Handshake(); err != nil {
			return nil, err
		}
		state := secured.ConnectionState()
		_, err := secured.Write([]byte("hi"))
		return &state, err
	}, client)
}

// shaken is shake with a server that does that.
func shaken(
	t *testing.T, serve func(net.Conn) (*tls.ConnectionState, error), client *tls.Config,
) (state *tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			serverErr = err
			return
		}
		defer conn.Close()
		state, serverErr = serve(conn)
	}()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	c := tls.Client(conn, client)
	if clientErr = c.Handshake(); clientErr == nil {
		// With TLS 1.3 the client learns of a refusal by its first read.
		_, clientErr = io.ReadFull(c, make([]byte, 2))
	}
	conn.Close()
	<-done
	return state, serverErr, clientErr
}

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	server := guardtest.Open(t, c.Options(t, guard.Lighthouse, "server"))
	client := guardtest.Open(t, c.Options(t, guard.Replica, "client"))
	state, serverErr, clientErr := shake(t, server, client.TLS.Client("127.0.0.1:1", toServer))
	if serverErr != nil || clientErr != nil {
		t.Fatalf("handshake: server %v, client %v", serverErr, clientErr)
	}
	if !guard.Verified(state) || state.Version != tls.VersionTLS13 {
		t.Errorf("state: verified %v, version %x", guard.Verified(state), state.Version)
	}
}

func TestTLSRefuses(t *testing.T) {
	t.Parallel()
	c, foreign := guardtest.New(t), guardtest.New(t)
	server := guardtest.Open(t, c.Options(t, guard.Lighthouse, "server"))
	member := guardtest.Open(t, c.Options(t, guard.Replica, "client"))
	stranger := guardtest.Open(t, foreign.Options(t, guard.Replica, "client"))
	caOnly := guardtest.Open(t, guard.Options{TLSCA: filepath.Join(c.Dir, "ca.pem")})
	withStrangersCert := member.TLS.Client("127.0.0.1", toServer)
	withStrangersCert.Certificates = stranger.TLS.Client("x", toServer).Certificates
	old := member.TLS.Client("127.0.0.1", toServer)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for _, tc := range []struct {
		name   string
		client *tls.Config
		want   string // in the error of either side
	}{
		{"another host's name", member.TLS.Client("example.org", toServer), "example.org"},
		{"a server of another CA", stranger.TLS.Client("127.0.0.1", toServer), "unknown authority"},
		{"no client certificate", caOnly.TLS.Client("127.0.0.1", toServer), "certificate"},
		{"a client of another CA", withStrangersCert, "certificate"},
		{"TLS 1.2", old, "version"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, serverErr, clientErr := shake(t, server, tc.client)
			if clientErr == nil {
				t.Fatal("the handshake succeeded")
			}
			if err := errors.Join(clientErr, serverErr); !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want something with %q", err, tc.want)
			}
		})
	}
}

func TestAnonymousClientsAndSharedName(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	c.Sign(t, toServer, "shared", "skerry.cluster")
	o := c.Options(t, guard.Lighthouse, "unused")
	o.TLSCert, o.TLSKey = filepath.Join(c.Dir, "shared.pem"), filepath.Join(c.Dir, "shared.key")
	o.TLSAnonymous = true
	server := guardtest.Open(t, o)
	client := guardtest.Open(t, guard.Options{TLSCA: o.TLSCA, TLSServerName: "skerry.cluster"})
	state, serverErr, clientErr := shake(t, server, client.TLS.Client("10.1.2.3:29510", toServer))
	if serverErr != nil || clientErr != nil {
		t.Fatalf("handshake: server %v, client %v", serverErr, clientErr)
	}
	if guard.Verified(state) {
		t.Error("a client without a certificate counts as verified")
	}
}

// TestRenewal: new files are used without a restart, and half a renewal changes
// nothing.
func TestRenewal(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	server := guardtest.Open(t, c.Options(t, guard.Lighthouse, "server"))
	guard.LookAlways(server)
	client := guardtest.Open(t, c.Options(t, guard.Replica, "client"))
	served := func() *x509.Certificate {
		t.Helper()
		cfg := client.TLS.Client("127.0.0.1", toServer)
		var leaf *x509.Certificate
		cfg.VerifyConnection = func(s tls.ConnectionState) error { leaf = s.PeerCertificates[0]; return nil }
		if _, serverErr, clientErr := shake(t, server, cfg); serverErr != nil || clientErr != nil {
			t.Fatalf("handshake: server %v, client %v", serverErr, clientErr)
		}
		return leaf
	}
	first := served()
	c.Sign(t, toServer, "server")
	second := served()
	if first.SerialNumber.Cmp(second.SerialNumber) == 0 {
		t.Error("the renewed certificate is not served")
	}
	if err := os.WriteFile(filepath.Join(c.Dir, "server.key"), []byte("half a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	if third := served(); third.SerialNumber.Cmp(second.SerialNumber) != 0 {
		t.Error("a renewal that is half done changed what is served")
	}
	if server.TLS.Problem() == nil {
		t.Error("a key that cannot be read is no problem")
	}
	c.Sign(t, toServer, "server")
	if fourth := served(); fourth.SerialNumber.Cmp(second.SerialNumber) == 0 || server.TLS.Problem() != nil {
		t.Errorf("the renewal that was mended is not served; problem %v", server.TLS.Problem())
	}
}

func TestPlainClientIsTold(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	server := guardtest.Open(t, c.Options(t, guard.Lighthouse, "server"))
	ours, theirs := net.Pipe()
	defer ours.Close()
	result := make(chan error, 1)
	go func() {
		_, err := server.Secure(context.Background(), theirs, patience)
		theirs.Close()
		result <- err
	}()
	_ = ours.SetDeadline(time.Now().Add(patience))
	if _, err := ours.Write([]byte("G")); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(ours)
	if !strings.Contains(string(answer), "use https://") {
		t.Errorf("answer %q does not name https", answer)
	}
	if err := <-result; !errors.Is(err, guard.ErrPlain) {
		t.Errorf("got %v, want ErrPlain", err)
	}
}

// TestHalfHandshakeEnds: a client that begins and says no more is cut.
func TestHalfHandshakeEnds(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	server := guardtest.Open(t, c.Options(t, guard.Lighthouse, "server"))
	for _, begin := range []string{"", "\x16", "\x16\x03\x01\x02\x00\x01"} {
		ours, theirs := net.Pipe()
		result := make(chan error, 1)
		go func() {
			_, err := server.Secure(context.Background(), theirs, 50*time.Millisecond)
			theirs.Close()
			result <- err
		}()
		if begin != "" {
			_, _ = ours.Write([]byte(begin)) // it may be cut already
		}
		select {
		case err := <-result:
			if err == nil {
				t.Errorf("%q: the handshake succeeded", begin)
			}
		case <-time.After(patience):
			t.Errorf("%q: the handshake never ended", begin)
		}
		ours.Close()
		theirs.Close()
	}
}

func TestOptionsValidate(t *testing.T) {
	t.Parallel()
	err := guard.Options{TLSCert: "c", TLSServerName: "n", Token: guard.NewSecret([]byte("short"))}.Validate()
	for _, want := range []string{"TLSCert", "TLSCA", "TLSServerName", "16 to"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want something about %s", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "short") {
		t.Errorf("the error shows the token: %v", err)
	}
	if err := (guard.Options{}).Validate(); err != nil {
		t.Errorf("no options: %v", err)
	}
	// Whichever of the two is missing, the error fits.
	err = guard.Options{TLSKey: "k.pem"}.Validate()
	const want = `TLSCert = "", want it and TLSKey both set or both empty: TLSKey = "k.pem"`
	if err == nil || err.Error() != want {
		t.Errorf("a key alone: %v, want %s", err, want)
	}
	c := guardtest.New(t)
	a, b := c.Options(t, guard.Replica, "a"), c.Options(t, guard.Replica, "b")
	a.TLSKey = b.TLSKey
	if _, err := guard.Open(a); err == nil || !strings.Contains(err.Error(), "a.pem") {
		t.Errorf("a key of another certificate: %v", err)
	}
	if _, err := guard.OpenAuthority(c.Dir); err != nil {
		t.Errorf("open the CA again: %v", err)
	}
	if err := c.Authority.Write(c.Dir); !errors.Is(err, os.ErrExist) {
		t.Errorf("a CA was overwritten: %v", err)
	}
}
