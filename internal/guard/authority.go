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
	"os"
	"path/filepath"
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

// OpenAuthority reads a CA that Write wrote.
func OpenAuthority(dir string) (*Authority, error) {
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

// Sign makes a certificate for a server and client under these names: hosts
// and IP addresses; at least one.
func (a *Authority) Sign(life time.Duration, names ...string) (Pair, error) {
	if len(names) == 0 || names[0] == "" {
		return Pair{}, errors.New("sign: no name, want a host or an IP address")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: names[0]},
		NotBefore:    time.Now().Add(-backdate),
		NotAfter:     time.Now().Add(life),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign for %q: %w", names[0], err)
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
	for _, one := range []struct {
		file string
		text []byte
		mode os.FileMode
	}{{name + ".key", p.Key.Reveal(), 0o600}, {name + ".pem", p.Cert, 0o644}} {
		// Readers see the old file or the new one, never a part.
		path := filepath.Join(dir, one.file)
		if err := os.WriteFile(path+".new", one.text, one.mode); err != nil {
			return err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
	}
	return nil
}

// WriteSecret writes a secret for its owner alone; a file that is there already
// is not overwritten.
func WriteSecret(path string, s Secret) error {
	return writeNew(path, append(append([]byte(nil), s.Reveal()...), '\n'), 0o600)
}

func writeNew(path string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
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
