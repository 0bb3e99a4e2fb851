package guardtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"
)

// subjectAltName is the extension with the names of a certificate (RFC 5280 §4.2.1.6),
// and uriTag what marks a URI in it.
var subjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}

const uriTag = 6

// ShowOdd has a stranger come to the TLS server at addr with an OddCertificate, and
// waits until that has closed.
func ShowOdd(t testing.TB, addr string, n int) {
	t.Helper()
	odd := OddCertificate(t, n)
	conn, err := tls.Dial("tcp", addr, &tls.Config{
		InsecureSkipVerify: true, // a stranger
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &odd, nil
		},
	})
	if err != nil {
		t.Fatal(err) // the server looks at the certificate later
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the stranger is not refused: %v", err)
	}
}

// patience is how long a server may take to refuse.
const patience = 20 * time.Second

// OddCertificate is one that a stranger signed himself with a URI of n bytes that cannot
// be parsed: the error of whoever tries repeats it.
func OddCertificate(t testing.TB, n int) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	uri := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: uriTag, Bytes: []byte("skerry://" + strings.Repeat("\x01", n))}
	names, err := asn1.Marshal([]asn1.RawValue{uri})
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtraExtensions: []pkix.Extension{{Id: subjectAltName, Value: names}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
