package guard_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
)

// certificate has these URIs.
func certificate(t *testing.T, uris ...string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestPartyOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		uris string
		want guard.Party
		ok   bool
	}{
		{"", guard.Party{}, true},
		{"spiffe://example.org/trainer", guard.Party{}, true},
		{"skerry://role/lighthouse", guard.Party{Role: guard.Lighthouse}, true},
		{"spiffe://example.org/x skerry://role/operator", guard.Party{Role: guard.Operator}, true},
		{"skerry://job/vision_2 skerry://role/replica", guard.Party{Role: guard.Replica, Job: "vision_2"}, true},
		{"skerry://role/replica skerry://role/lighthouse", guard.Party{}, false},
		{"skerry://role/replica skerry://job/a skerry://job/b", guard.Party{}, false},
		{"skerry://role/replica skerry://job/", guard.Party{}, false},
		{"skerry://role/lighthouse skerry://job/a", guard.Party{}, false},
		{"skerry://job/a", guard.Party{}, false},
		{"skerry://role/admin", guard.Party{}, false},
		{"skerry://role/", guard.Party{}, false},
		{"skerry://rank/0", guard.Party{}, false},
	} {
		got, err := guard.PartyOf(certificate(t, strings.Fields(tc.uris)...))
		if got != tc.want || (err == nil) != tc.ok {
			t.Errorf("%q: %+v, %v; want %+v, an error: %v", tc.uris, got, err, tc.want, !tc.ok)
		}
	}
}

// TestRolesInTheHandshake: who dials a lighthouse ends the handshake with one that
// has another role, or none, or another job, and so does a server that is for
// replicas of one job.
func TestRolesInTheHandshake(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	opened := func(p guard.Party, name string) *guard.Guard {
		return guardtest.Open(t, c.PartyOptions(t, p, name))
	}
	lighthouse := opened(guard.Party{Role: guard.Lighthouse}, "lighthouse")
	replica := opened(guard.Party{Role: guard.Replica}, "replica")
	vision := opened(guard.Party{Role: guard.Replica, Job: "vision"}, "vision")
	operator := opened(guard.Party{Role: guard.Operator}, "operator")
	none := opened(guard.Party{}, "none")
	o := c.PartyOptions(t, guard.Party{}, "lax")
	o.TLSAnyRole = true
	lax := guardtest.Open(t, o)
	toVision := guard.Party{Role: guard.Replica, Job: "vision"}
	for _, tc := range []struct {
		name           string
		server, client *guard.Guard
		to             guard.Party
		want           string // in the client's error; empty: it succeeds
	}{
		{"a replica dials a lighthouse", lighthouse, vision, toServer, ""},
		{"a replica's key as a lighthouse's", replica, operator, toServer, "has role replica, want lighthouse"},
		{"an operator's as a lighthouse's", operator, replica, toServer, "incompatible key usage"},
		{"no role as a lighthouse's", none, replica, toServer, "has no role"},
		{"no role, where any will do", none, lax, toServer, ""},
		{"a wrong role, where any will do", replica, lax, toServer, "has role replica"},
		{"a replica of that job", vision, replica, toVision, ""},
		{"a replica of all jobs", replica, vision, toVision, ""},
		{"a replica of another job", vision, replica, guard.Party{Role: guard.Replica, Job: "text"}, `bound to job "vision", and this is job "text"`},
	} {
		_, serverErr, clientErr := shake(t, tc.server, tc.client.TLS.Client("127.0.0.1", tc.to))
		if tc.want == "" && (serverErr != nil || clientErr != nil) {
			t.Errorf("%s: %v, %v", tc.name, serverErr, clientErr)
		}
		if tc.want != "" && (clientErr == nil || !strings.Contains(clientErr.Error(), tc.want)) {
			t.Errorf("%s: %v, want something with %q", tc.name, clientErr, tc.want)
		}
	}
	for _, tc := range []struct {
		client *guard.Guard
		want   string // in the server's error
	}{{replica, ""}, {vision, `bound to job "vision"`}, {operator, "has role operator"}, {none, "has no role"}} {
		_, serverErr, clientErr := shakeWith(t, replica.ServerFor("text", guard.Replica), tc.client.TLS.Client("127.0.0.1", guard.Party{Role: guard.Replica}))
		if (tc.want == "") != (serverErr == nil && clientErr == nil) || tc.want != "" && !strings.Contains(errors.Join(serverErr).Error(), tc.want) {
			t.Errorf("a server for replicas of job text: %v, %v; want something with %q", serverErr, clientErr, tc.want)
		}
	}
}

// TestOnlyRegularFiles: what could block or never end is told at once.
func TestOnlyRegularFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, big := filepath.Join(dir, "fifo"), filepath.Join(dir, "big")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(big, make([]byte, 2<<20), 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		fifo: "is a pipe, want a regular file", dir: "is a directory", "/dev/zero": "is a device", big: "more than 1048576 bytes",
		filepath.Join(dir, "none"): "no such file",
	} {
		for name, open := range map[string]func() error{
			"token": func() error { _, err := guard.Open(guard.Options{TokenFile: path}); return err },
			"CA":    func() error { _, err := guard.Open(guard.Options{TLSCA: path}); return err },
			"keys":  func() error { _, err := guard.OpenKeys(path); return err },
		} {
			done := make(chan error, 1)
			go func() { done <- open() }()
			select {
			case err := <-done:
				if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
					t.Errorf("%s in %s: %v, want something with %q", name, path, err, want)
				}
			case <-time.After(patience):
				t.Errorf("%s in %s: no answer", name, path)
			}
		}
	}
}
