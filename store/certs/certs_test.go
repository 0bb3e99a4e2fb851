package certs_test

import (
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/certs"
)

// environment sets the variables of o, and no other.
func environment(t *testing.T, o guard.Options, data string) {
	t.Helper()
	for name, value := range map[string]string{
		guard.EnvTLSCA: o.TLSCA, guard.EnvTLSCert: o.TLSCert, guard.EnvTLSKey: o.TLSKey, guard.EnvTLSData: data,
		guard.EnvTLSServerName: "", guard.EnvTLSAnyRole: "", guard.EnvTokenFile: "", guard.EnvToken: "",
	} {
		t.Setenv(name, value)
	}
}

func TestFromEnv(t *testing.T) {
	c := guardtest.New(t)
	replica := c.Options(t, guard.Replica, "replica")
	for _, tc := range []struct {
		what, data string
		o          guard.Options
		encrypted  bool
		problem    string
	}{
		{what: "nothing"},
		{what: "certificates", o: replica, encrypted: true},
		{what: "certificates, told to encrypt", o: replica, data: "true", encrypted: true},
		{what: "certificates, told not to", o: replica, data: "0"},
		{what: "a CA alone, as operators of an anonymous lighthouse have it", o: guard.Options{TLSCA: replica.TLSCA}},
		{what: "told to encrypt, without certificates", data: "true", problem: "TLSData = true, want TLSCA"},
		{what: "nonsense", data: "yes, please", problem: `SKERRY_TLS_DATA = "yes, please", want true or false`},
		{what: "an operator's certificate", o: c.Options(t, guard.Operator, "operator"), problem: "has role operator, want replica"},
		{what: "no file", o: guard.Options{TLSCA: filepath.Join(c.Dir, "none"), TLSCert: "c", TLSKey: "k"}, problem: "none"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			environment(t, tc.o, tc.data)
			got, err := certs.FromEnv("")
			switch {
			case tc.problem != "" && (err == nil || !strings.Contains(err.Error(), tc.problem)):
				t.Errorf("got %v, want an error with %q", err, tc.problem)
			case tc.problem == "" && err != nil:
				t.Error(err)
			case (got != nil) != tc.encrypted:
				t.Errorf("got %+v, want encryption: %t", got, tc.encrypted)
			}
		})
	}
}

// TestOpenAgain: what another process makes of Files is good for the first.
func TestOpenAgain(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	o := c.PartyOptions(t, guard.Party{Role: guard.Replica, Job: "vision"}, "replica")
	first := certs.Of(guardtest.Open(t, o), o, "vision")
	again, err := certs.Open(first.Files)
	if err != nil {
		t.Fatal(err)
	}
	if err := shake(t, first, again); err != nil {
		t.Error(err)
	}
	if err := shake(t, again, first); err != nil {
		t.Error(err)
	}
	other := first.Files
	other.Job = "text"
	if _, err := certs.Open(other); err == nil || !strings.Contains(err.Error(), `bound to job "vision"`) {
		t.Errorf("with the certificate of another job: %v", err)
	}
	if _, err := certs.Open(store.TLSFiles{}); err == nil {
		t.Error("no files were taken")
	}
}

// shake has client connect to server, and says what went wrong.
func shake(t *testing.T, server, client *store.TLS) error {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(10 * time.Second))
			err = tls.Server(conn, server.Server).HandshakeContext(t.Context())
		}
		served <- err
	}()
	raw, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(10 * time.Second))
	err = tls.Client(raw, client.Client(ln.Addr().String())).HandshakeContext(t.Context())
	return errors.Join(err, <-served)
}
