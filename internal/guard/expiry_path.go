package guard

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
)

// signer is a certificate that leads to a CA, and what ends first on that way.
type signer struct {
	cert *x509.Certificate
	ends Expiry
}

// expiryOf is that of a certificate, which may be nil, and of those that lead from it
// to a CA; of several ways it is the one that holds longest, as while a CA is renewed.
// What else is in the file, others do not need, and it may end. cas are the CAs of the
// peers.
func expiryOf(o Options, certificate *tls.Certificate, cas []*x509.Certificate) Expiry {
	var lead []signer
	var newest Expiry
	for _, ca := range cas {
		s := signer{ca, expiryIn(o.TLSCA, ca)}
		lead = append(lead, s)
		if newest.IsZero() || s.ends.Until.After(newest.Until) {
			newest = s.ends
		}
	}
	if certificate == nil {
		return newest
	}
	var between []*x509.Certificate
	for _, der := range certificate.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil { // tls.X509KeyPair parses the leaf alone
			between = append(between, c)
		}
	}
	// Each round knows one certificate more by the way from it that holds longest.
	for len(between) > 0 {
		best, ends := -1, Expiry{}
		for i, c := range between {
			if e := endOf(o.TLSCert, c, lead); !e.IsZero() && (best < 0 || e.Until.After(ends.Until)) {
				best, ends = i, e
			}
		}
		if best < 0 {
			break
		}
		lead = append(lead, signer{between[best], ends})
		between = append(between[:best], between[best+1:]...)
	}
	if e := endOf(o.TLSCert, certificate.Leaf, lead); !e.IsZero() {
		return e
	}
	return expiryIn(o.TLSCert, certificate.Leaf) // the peers may know another CA
}

// endOf is what ends first, of c and of the way over one of lead that holds longest;
// zero: none of them has signed c.
func endOf(file string, c *x509.Certificate, lead []signer) Expiry {
	var over Expiry
	for _, s := range lead {
		if bytes.Equal(c.RawIssuer, s.cert.RawSubject) && (over.IsZero() || s.ends.Until.After(over.Until)) && c.CheckSignatureFrom(s.cert) == nil {
			over = s.ends
		}
	}
	if !over.IsZero() && !over.Until.Before(c.NotAfter) {
		return expiryIn(file, c)
	}
	return over
}
