package guard_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
)

// minted is a certificate with its key.
type minted struct {
	*x509.Certificate
	key *ecdsa.PrivateKey
}

// mint makes a CA, or the certificate of a replica, signed by that one (nil: itself),
// which ends so long from now.
func mint(t *testing.T, name string, ca bool, by *minted, key *ecdsa.PrivateKey, life time.Duration) *minted {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
		BasicConstraintsValid: true, IsCA: ca, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, DNSNames: []string{"localhost"},
	}
	if ca {
		template.KeyUsage = x509.KeyUsageCertSign
	}
	var err error
	if key == nil {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	parent := &minted{template, key}
	if by != nil {
		parent = by
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.Certificate, key.Public(), parent.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &minted{cert, key}
}

// TestEndedCertificateOfNoPath: one that has ended, in the file of a process's own, shuts
// it out only if no other leads from the leaf to the CA.
func TestEndedCertificateOfNoPath(t *testing.T) {
	t.Parallel()
	root := mint(t, "root", true, nil, nil, time.Hour)
	between := mint(t, "between", true, root, nil, time.Hour)
	betweenEnded := mint(t, "between", true, root, between.key, -time.Minute)
	leaf := mint(t, "leaf", false, between, nil, time.Hour)
	leafEnded := mint(t, "leaf", false, between, leaf.key, -time.Minute)
	direct := mint(t, "direct", false, root, nil, time.Hour)
	strange := mint(t, "strange", true, nil, nil, -time.Minute)
	rootEnded := mint(t, "root", true, nil, root.key, -time.Minute)
	for name, tc := range map[string]struct {
		file []*minted
		want string // of the refusal; empty: there is none
	}{
		"alone":                     {[]*minted{direct}, ""},
		"a stranger's":              {[]*minted{direct, strange}, ""},
		"the CA as it was":          {[]*minted{direct, rootEnded}, ""},
		"over another":              {[]*minted{leaf, between}, ""},
		"beside the one that holds": {[]*minted{leaf, betweenEnded, between}, ""},
		"the same, other order":     {[]*minted{leaf, between, strange, betweenEnded}, ""},
		"of the one path":           {[]*minted{leaf, betweenEnded}, `certificate "between" in `},
		"the leaf itself":           {[]*minted{leafEnded, between}, `certificate "leaf" in `},
	} {
		dir := t.TempDir()
		o := guard.Options{TLSCA: filepath.Join(dir, "ca.pem"), TLSCert: filepath.Join(dir, "own.pem"), TLSKey: filepath.Join(dir, "own.key"), TLSAnyRole: true}
		key, err := x509.MarshalPKCS8PrivateKey(tc.file[0].key)
		if err != nil {
			t.Fatal(err)
		}
		var chain []byte
		for _, c := range tc.file {
			chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
		}
		for path, text := range map[string][]byte{
			o.TLSCA:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}),
			o.TLSCert: chain, o.TLSKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		g := guardtest.Open(t, o)
		err = g.CheckOwn("", guard.Replica)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		_, serverErr, clientErr := shakeWith(t, g.Server(), g.TLS.Client("localhost", guard.Party{Role: guard.Replica}))
		if ok := serverErr == nil && clientErr == nil; ok != (tc.want == "") {
			t.Errorf("%s: handshake: server %v, client %v, want %q", name, serverErr, clientErr, tc.want)
		}
	}
}

// TestStrangersEndedCertificate: one that no CA of ours has signed is no certificate of
// ours that has ended, whatever it is called; and names are cut to what a line shows.
func TestStrangersEndedCertificate(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	server := guardtest.Open(t, c.Options(t, guard.Lighthouse, "server"))
	long := strings.Repeat("\x01", 10_000)
	fake := mint(t, "skerry CA", true, nil, nil, -time.Minute)
	for name, shown := range map[string][]*minted{
		"signed by itself":         {mint(t, "server1"+long, false, nil, nil, -time.Minute)},
		"signed by one of a name":  {mint(t, "server1", false, fake, nil, -time.Minute), fake},
		"signed by one that ended": {mint(t, "server1", false, fake, nil, time.Hour), fake},
	} {
		client := guardtest.Open(t, c.Options(t, guard.Replica, "client")).TLS.Client("127.0.0.1", toServer)
		client.Certificates = nil
		var chain [][]byte
		for _, one := range shown {
			chain = append(chain, one.Raw)
		}
		client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: chain, PrivateKey: shown[0].key}, nil
		}
		_, err, _ := shake(t, server, client)
		if err == nil || guard.RefusedLevel(guard.Explain(err, server.TLS.CAs())) >= guard.RefusedLevel(&guard.ValidityError{}) {
			t.Errorf("%s: %v, want it refused as any stranger", name, err)
		}
	}
	own := &guard.ValidityError{Expiry: guard.ExpiryOf(mint(t, long, false, nil, nil, -time.Minute).Certificate), Now: time.Now()}
	if n := len(own.Error()); n > 512 || !strings.Contains(own.Error(), `\x01`) {
		t.Errorf("an error of %d bytes about a name of %d, want it cut", n, len(long))
	}
}
