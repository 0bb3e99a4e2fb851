package store

import "crypto/tls"

// TLS is how the two ends of a connection between processes of a job know each
// other, and keep others from reading and changing what they say: to stores, and on
// the data plane. Either all processes of a job have one, or none has. Package
// store/certs makes it of files. Safe for concurrent use, and never changed.
type TLS struct {
	// Server is the side that listens. It asks for a certificate and ends the
	// handshake with a client that may not come in: nothing of ours looks at
	// certificates after it. Its GetConfigForClient takes renewed files.
	Server *tls.Config `json:"-"`
	// Client makes the side that dials, for one connection to host, which may have a
	// port. It checks the server likewise.
	Client func(host string) *tls.Config `json:"-"`
	// Files are where another process of this rank (a child of pg/baby) finds the
	// same. Zero: it cannot.
	Files TLSFiles
}

// TLSFiles names the files of a [TLS] and what peers must show. It holds no
// secret.
type TLSFiles struct {
	CA, Cert, Key string // PEM
	ServerName    string // that servers' certificates carry; empty: the host dialled
	Job           string // replicas that are bound to another one are refused; empty: none is
	AnyRole       bool   // certificates that name no role are good
	Anonymous     bool   // clients need no certificate
}
