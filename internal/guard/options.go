package guard

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strconv"

	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/problems"
)

// The environment variables of Options, the same for every program.
const (
	EnvTLSCA         = "SKERRY_TLS_CA"
	EnvTLSCert       = "SKERRY_TLS_CERT"
	EnvTLSKey        = "SKERRY_TLS_KEY"
	EnvTLSServerName = "SKERRY_TLS_SERVER_NAME"
	EnvTLSAnyRole    = "SKERRY_TLS_ANY_ROLE" // true or false
	EnvTLSData       = "SKERRY_TLS_DATA"     // true or false
	EnvTokenFile     = "SKERRY_TOKEN_FILE"
	EnvToken         = "SKERRY_TOKEN" // the token itself
)

// Options say where a process finds its identity and its token. The zero value
// guards nothing.
type Options struct {
	// TLSCA is the file of the CA that signs all peers, in PEM. Empty: no TLS.
	TLSCA string
	// TLSCert and TLSKey are the files of this process's certificate and key,
	// in PEM. Both or none; a server needs them, and with mutual TLS a client too.
	TLSCert, TLSKey string
	// TLSServerName is the name that the certificates of servers must carry,
	// instead of the host that is dialled. Empty: the host.
	TLSServerName string
	// TLSAnonymous lets clients in that show no certificate: TLS then says who the
	// server is, and the token alone what a client may do.
	TLSAnonymous bool
	// TLSAnyRole takes a certificate that names no role for one of any role: while
	// certificates of a time before roles are replaced, or for good where a CA puts
	// no URI into them. Then a replica's key passes for a lighthouse's.
	TLSAnyRole bool
	// TLSData says whether the data plane and the store are encrypted, too, where
	// there are certificates; nil: they are. All replicas of a job agree on it.
	TLSData *bool
	// TokenFile has the token for changing actions, or, of a replica, one that lets it
	// join one job and nothing else (Token.JoinTokens), one a line; the first is used,
	// all are accepted.
	TokenFile string
	// Token is the same from elsewhere, if there is no TokenFile.
	Token Secret
	// Adopt is how far a server is that is given all this while its cluster runs.
	Adopt Adoption
	// Open lets listeners that other hosts reach be served with neither a token nor
	// certificates: to whoever comes. Off, such a listener is refused at the start.
	Open bool
}

// FromEnv fills the fields that are still empty from the environment.
func (o *Options) FromEnv() error {
	for _, one := range []struct {
		to   *string
		name string
	}{
		{&o.TLSCA, EnvTLSCA}, {&o.TLSCert, EnvTLSCert}, {&o.TLSKey, EnvTLSKey},
		{&o.TLSServerName, EnvTLSServerName}, {&o.TokenFile, EnvTokenFile},
	} {
		*one.to = cmp.Or(*one.to, os.Getenv(one.name))
	}
	var err error
	if !o.Open {
		if o.Open, err = netaddr.OpenFromEnv(); err != nil {
			return err
		}
	}
	if text := os.Getenv(EnvTLSAnyRole); text != "" && !o.TLSAnyRole {
		if o.TLSAnyRole, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%s = %q, want true or false", EnvTLSAnyRole, text)
		}
	}
	if text := os.Getenv(EnvTLSData); text != "" && o.TLSData == nil {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%s = %q, want true or false", EnvTLSData, text)
		}
		o.TLSData = &on
	}
	if o.TokenFile != "" || !o.Token.IsZero() {
		return nil
	}
	o.Token, err = TokenFromEnv(EnvToken)
	return err
}

// EncryptsData says whether the data plane and the store are to be encrypted.
func (o Options) EncryptsData() bool {
	return o.TLSCA != "" && o.TLSCert != "" && (o.TLSData == nil || *o.TLSData)
}

// Validate returns all problems that can be seen without reading files.
func (o Options) Validate() error {
	var l problems.List
	l.Want((o.TLSCert == "") == (o.TLSKey == ""), "TLSCert", o.TLSCert, "it and TLSKey both set or both empty: TLSKey = %q", o.TLSKey)
	l.Want(o.TLSCA != "" || o.TLSCert == "", "TLSCA", "", "the file of the CA that signs the peers, since TLSCert = %q", o.TLSCert)
	l.Want(o.TLSCA != "" || !o.TLSAnonymous, "TLSAnonymous", true, "TLSCA with it")
	l.Want(o.TLSCA != "" || !o.TLSAnyRole, "TLSAnyRole", true, "TLSCA with it")
	l.Want(o.TLSCert != "" || o.TLSData == nil || !*o.TLSData, "TLSData", true, "TLSCA, TLSCert and TLSKey with it")
	l.Want(o.TLSCA != "" || o.TLSServerName == "", "TLSServerName", o.TLSServerName, "it empty without TLSCA")
	l.Add(o.Adopt.check())
	if !o.Token.IsZero() && o.TokenFile == "" {
		l.Add(o.Token.check("Token"))
	}
	return l.Err()
}

// Guard is an identity and a token, either or both of which may be missing.
type Guard struct {
	TLS       *Identity // nil: no TLS
	Anonymous bool      // clients need no certificate
	Token     *Token    // never nil; IsZero: no token
	Adopt     Adoption  // Lenient: what comes unguarded is taken as well
	Open      bool      // whoever comes may be served, where nothing guards
}

// Open reads what o names.
func Open(o Options) (*Guard, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	token, err := parseToken(o.Token, "Token")
	if err != nil {
		return nil, err
	}
	g := &Guard{Token: token, Anonymous: o.TLSAnonymous, Adopt: o.Adopt, Open: o.Open}
	if o.TLSCA != "" {
		if g.TLS, err = openIdentity(o); err != nil {
			return nil, err
		}
	}
	if o.TokenFile != "" {
		if g.Token, err = openToken(o.TokenFile); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// IsZero says that nothing is guarded.
func (g *Guard) IsZero() bool { return g.TLS == nil && g.Token.IsZero() }

// CheckListen refuses an address to listen at that other hosts reach, if nothing
// says who may call: no token, no certificates that clients must show, and nobody's
// word (Open, or a step of Adopt) that it shall be so. remedy is what to set.
func (g *Guard) CheckListen(ctx context.Context, address, remedy string) error {
	guarded := !g.Token.IsZero() || g.TLS != nil && !g.Anonymous
	return netaddr.Check(ctx, address, guarded || g.Open || g.Adopt.Lenient(), remedy)
}

// Serves says whether the guard can serve TLS.
func (g *Guard) Serves() bool { return g.TLS != nil && g.TLS.HasCertificate() }

// Server is the TLS configuration of a server whose clients are looked at call
// by call; see CheckPeer.
func (g *Guard) Server() *tls.Config {
	if g.Anonymous {
		return g.TLS.ServerOptional()
	}
	return g.TLS.Server()
}

// ServerFor is that of a server of job whose clients act as one of roles, all of
// them in everything they ask.
func (g *Guard) ServerFor(job string, roles ...Role) *tls.Config {
	if g.Anonymous {
		return g.TLS.ServerOptional()
	}
	return g.TLS.ServerFor(job, roles...)
}
