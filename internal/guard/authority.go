package guard

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"slices"
	"time"
)

// Authority is a CA of our own, for who has none. Its key signs whoever asks:
// keep it off the machines that train.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// backdate lets certificates hold on machines whose clocks are behind.
const backdate = time.Hour

// NewAuthority makes a CA that holds for that long.
func NewAuthority(life time.Duration) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the CA's key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "skerry CA"},
		NotBefore:             time.Now().Add(-backdate),
		NotAfter:              time.Now().Add(life),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	return &Authority{certificate: cert, key: key}, nil
}

// OpenAuthority reads a CA that Write wrote. A key that others can read, and a
// folder that others can write to, are refused.
func OpenAuthority(dir string) (*Authority, error) {
	if err := checkFolder(dir); err != nil {
		return nil, fmt.Errorf("open the CA: %w", err)
	}
	if err := checkSecret(filepath.Join(dir, "ca.key")); err != nil {
		return nil, fmt.Errorf("open the CA: %w", err)
	}
	certText, err := readFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return nil, fmt.Errorf("open the CA: %w", err)
	}
	keyText, err := readFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, fmt.Errorf("open the CA: %w", err)
	}
	certBlock, _ := pem.Decode(certText)
	keyBlock, _ := pem.Decode(keyText)
	if certBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("open the CA in %s: ca.pem or ca.key is no PEM", dir)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("open the CA in %s: %w", dir, err)
	}
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("open the CA in %s: its key cannot be read", dir)
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok || !cert.IsCA {
		return nil, fmt.Errorf("open the CA in %s: want a CA with an ECDSA key", dir)
	}
	return &Authority{certificate: cert, key: ec}, nil
}

func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic(fmt.Sprintf("guard: draw a serial number: %v", err)) // documented never to happen
	}
	return n
}

// Pair is a certificate and its key, in PEM.
type Pair struct {
	Cert []byte
	Key  Secret
}

// Request is what a certificate is asked for.
type Request struct {
	Party
	// Name is what its holder is called in logs and errors; empty: the first host.
	Name string
	// Hosts are the names and IP addresses under which its holder is dialled: at
	// least one, but of an operator.
	Hosts []string
	// Life is how long it holds.
	Life time.Duration
}

// uses are what a certificate of a role is good for. Replicas are servers too, of
// heals and of the calls of one another; what dials them checks their role, so that
// none of them passes for a lighthouse.
func (r Role) uses() []x509.ExtKeyUsage {
	if !r.serves() {
		return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
}

// Sign makes a certificate.
func (a *Authority) Sign(r Request) (Pair, error) {
	if len(r.Hosts) == 0 && r.Role.serves() || slices.Contains(r.Hosts, "") {
		return Pair{}, fmt.Errorf("sign: hosts = %q, want names or IP addresses under which a %s is dialled", r.Hosts, r.Role)
	}
	if err := r.Party.validate(); err != nil {
		return Pair{}, fmt.Errorf("sign: %w", err)
	}
	if r.Name == "" && len(r.Hosts) > 0 {
		r.Name = r.Hosts[0]
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: r.Name},
		NotBefore:    time.Now().Add(-backdate),
		NotAfter:     time.Now().Add(r.Life),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  r.Role.uses(),
		URIs:         r.Party.uris(),
	}
	for _, n := range r.Hosts {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign for %q: %w", r.Name, err)
	}
	keyText, err := keyPEM(key)
	return Pair{Cert: certPEM(der), Key: keyText}, err
}

// Write puts ca.pem and ca.key into dir. Files that are there already are not
// overwritten.
func (a *Authority) Write(dir string) error {
	key, err := keyPEM(a.key)
	if err != nil {
		return err
	}
	return errors.Join(
		writeNew(filepath.Join(dir, "ca.pem"), certPEM(a.certificate.Raw), 0o644),
		writeNew(filepath.Join(dir, "ca.key"), key.Reveal(), 0o600))
}

// Write puts NAME.pem and NAME.key into dir, and replaces such as are there: a
// renewal.
func (p Pair) Write(dir, name string) error {
	return errors.Join(
		replaceFile(filepath.Join(dir, name+".key"), p.Key.Reveal(), 0o600),
		replaceFile(filepath.Join(dir, name+".pem"), p.Cert, 0o644))
}

// WriteSecret writes a secret for its owner alone; a file that is there already
// is not overwritten.
func WriteSecret(path string, s Secret) error {
	return writeNew(path, append(append([]byte(nil), s.Reveal()...), '\n'), 0o600)
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(key *ecdsa.PrivateKey) (Secret, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Secret{}, fmt.Errorf("encode the key: %w", err)
	}
	return Secret{pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}, nil
}
