// Package guardflags has the flags by which every program of ours is told its
// certificate and its token: the same names everywhere.
package guardflags

import (
	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/netaddr"
)

// Add adds the flags of a client to f; Apply completes them.
func Add(f *pflag.FlagSet, o *guard.Options) {
	f.StringVar(&o.TLSCA, "tls-ca", "", "PEM file of the CA that signs all peers; empty: no TLS ("+guard.EnvTLSCA+")")
	f.StringVar(&o.TLSCert, "tls-cert", "", "PEM file of this process's certificate ("+guard.EnvTLSCert+")")
	f.StringVar(&o.TLSKey, "tls-key", "", "PEM file of its key ("+guard.EnvTLSKey+")")
	f.StringVar(&o.TLSServerName, "tls-server-name", "", "name that certificates of servers must carry; empty: the host that is dialled ("+guard.EnvTLSServerName+")")
	f.BoolVar(&o.TLSAnyRole, "tls-any-role", false, "take certificates that name no role for ones of any role ("+guard.EnvTLSAnyRole+")")
	f.StringVar(&o.TokenFile, "token-file", "", "file of the token that changing actions need, one a line, the first is used ("+
		guard.EnvTokenFile+", or the token itself in "+guard.EnvToken+")")
}

// AddServer adds the flags of a server.
func AddServer(f *pflag.FlagSet, o *guard.Options) {
	Add(f, o)
	f.BoolVar(&o.TLSAnonymous, "tls-anonymous", false, "let clients in that show no certificate")
	AddOpen(f, &o.Open)
}

// AddOpen adds the flag of whatever listens.
func AddOpen(f *pflag.FlagSet, open *bool) {
	f.BoolVar(open, "open", false, "serve whoever comes, where other hosts reach this process and nothing guards it; else that is refused ("+
		netaddr.EnvOpen+"=1)")
}

// Apply fills what no flag named from the environment.
func Apply(o *guard.Options) error { return o.FromEnv() }
