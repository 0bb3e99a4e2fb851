package guard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// The protocols that a server of ours may be asked for.
const (
	protoHTTP2 = "h2"
	protoHTTP1 = "http/1.1"
)

// Identity is who this process is, and whom it believes: a certificate, its
// key, and the CA of all its peers. Safe for concurrent use.
type Identity struct {
	serverName string // instead of the host dialled; empty: the host
	anyRole    bool   // a certificate without a role is good for any
	files      *watched[material]
}

// material is what the files hold.
type material struct {
	certificate *tls.Certificate // nil: only the CA is known, as in a client without mutual TLS
	pool        *x509.CertPool
	expiry      Expiry
}

// openIdentity reads the files that o names. The CA's is required; certificate and
// key go together.
func openIdentity(o Options) (*Identity, error) {
	load := func() (material, error) { return loadMaterial(o) }
	paths := []string{o.TLSCA}
	if o.TLSCert != "" {
		paths = append(paths, o.TLSCert, o.TLSKey)
	}
	files, err := watch(load, paths...)
	if err != nil {
		return nil, err
	}
	return &Identity{serverName: o.TLSServerName, anyRole: o.TLSAnyRole, files: files}, nil
}

func loadMaterial(o Options) (material, error) {
	text, err := readFile(o.TLSCA)
	if err != nil {
		return material{}, fmt.Errorf("read the CA: %w", err)
	}
	cas := certificatesIn(text)
	if len(cas) == 0 {
		return material{}, fmt.Errorf("%s holds no PEM certificate", o.TLSCA)
	}
	m := material{pool: x509.NewCertPool()}
	for _, ca := range cas {
		m.pool.AddCert(ca)
	}
	if o.TLSCert != "" {
		if m.certificate, err = loadPair(o.TLSCert, o.TLSKey); err != nil {
			return material{}, err
		}
	}
	m.expiry = expiryOf(o, m.certificate, cas)
	return m, nil
}

// certificatesIn are those in PEM that can be read, as x509.CertPool takes them.
func certificatesIn(text []byte) []*x509.Certificate {
	var all []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" || len(block.Headers) > 0 {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, c)
		}
	}
	return all
}

func loadPair(cert, key string) (*tls.Certificate, error) {
	certText, err := readFile(cert)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	keyText, err := readFile(key)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return nil, fmt.Errorf("certificate %s and key %s: %w", cert, key, err)
	}
	return &pair, nil
}

// HasCertificate says whether this process can show who it is, and so serve.
func (i *Identity) HasCertificate() bool { return i.files.get().certificate != nil }

// Problem is why the files as they now are could not be taken, while older ones
// are in force; nil if all is well.
func (i *Identity) Problem() error { return i.files.problem() }

// CAs are those of the peers that are in force.
func (i *Identity) CAs() *x509.CertPool { return i.files.get().pool }

// Expiry is until when what is in force holds.
func (i *Identity) Expiry() Expiry { return i.files.get().expiry }

// Server is the configuration of a server that takes only clients of the CA. The
// caller looks at their roles, call by call.
func (i *Identity) Server() *tls.Config { return i.server(tls.RequireAndVerifyClientCert, nil) }

// ServerFor is that of a server that takes only clients of the CA that act as one
// of roles; with a job, not those that are bound to another one. Others end in
// the handshake.
func (i *Identity) ServerFor(job string, roles ...Role) *tls.Config {
	return i.server(tls.RequireAndVerifyClientCert, func(s tls.ConnectionState) error { return i.Admit(&s, job, roles...) })
}

// ServerOptional is that of a server that takes clients without a certificate
// too; the caller then looks at what VerifiedChains says, and decides by call. A
// certificate that is shown must be good all the same.
func (i *Identity) ServerOptional() *tls.Config { return i.server(tls.VerifyClientCertIfGiven, nil) }

func (i *Identity) server(auth tls.ClientAuthType, verify func(tls.ConnectionState) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// The outer configuration only has the versions: each handshake gets the
		// files of its moment. Tickets are off, so that a resumption never
		// outlives a renewal of the CA.
		SessionTicketsDisabled: true,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			m := i.files.get()
			if m.certificate == nil {
				return nil, errors.New("guard: no certificate to serve with")
			}
			return &tls.Config{
				MinVersion:             tls.VersionTLS13,
				Certificates:           []tls.Certificate{*m.certificate},
				ClientAuth:             auth,
				ClientCAs:              m.pool,
				NextProtos:             protocolsFor(hello.SupportedProtos),
				VerifyConnection:       verify,
				SessionTicketsDisabled: true,
			}, nil
		},
	}
}

// protocolsFor picks HTTP/1 for who speaks it: browsers and curl, whose HTTP/2
// the gRPC server of the same port would not understand. gRPC's clients offer
// HTTP/2 alone.
func protocolsFor(offered []string) []string {
	switch {
	case slices.Contains(offered, protoHTTP1):
		return []string{protoHTTP1}
	case slices.Contains(offered, protoHTTP2):
		return []string{protoHTTP2}
	}
	return nil
}

// Client is the configuration for one connection to host, with the files of
// this moment; what answers there must be a to. Make one for every dial. host may
// have a port.
func (i *Identity) Client(host string, to Party) *tls.Config {
	m := i.files.get()
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if i.serverName != "" {
		host = i.serverName
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: m.pool, ServerName: host}
	c.VerifyConnection = func(s tls.ConnectionState) error { return i.Admit(&s, to.Job, to.Role) }
	if m.certificate != nil {
		c.Certificates = []tls.Certificate{*m.certificate}
	}
	if err := m.expiry.check(time.Now()); err != nil { // the server's alert would not say whose, nor when
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return nil, err }
	}
	return c
}

// DialOver returns a dialler that makes TLS connections to parties of that kind over those
// of dial, each within timeout, handshake included.
func (i *Identity) DialOver(dial DialFunc, to Party, timeout time.Duration) DialFunc {
	return DialTLS(dial, timeout, func(address string) *tls.Config { return i.Client(address, to) })
}

// DialFunc makes a connection, as net.Dialer's DialContext does.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// DialTLS returns a dialler that makes TLS connections over those of dial, each by what
// client then says for its address, and within timeout, handshake included.
func DialTLS(dial DialFunc, timeout time.Duration, client func(address string) *tls.Config) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		config := client(address)
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("TLS with %s: %w", address, Explain(err, config.RootCAs)), conn.Close())
		}
		return secured, nil
	}
}

// Verified says whether the peer has shown a certificate of the CA.
func Verified(state *tls.ConnectionState) bool {
	return state != nil && len(state.VerifiedChains) > 0
}
