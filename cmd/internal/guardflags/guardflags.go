// Package guardflags has the flags by which every program of ours is told its
// certificate and its token: the same names everywhere.
package guardflags

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/netaddr"
)

// Add adds the flags of a client to f; Open completes them.
func Add(f *pflag.FlagSet, o *guard.Options) {
	AddTLS(f, o)
	f.StringVar(&o.TokenFile, "token-file", "", "file of the operators' token, which changing actions need, or of a join token (skerry token), one a line, the first is used ("+
		guard.EnvTokenFile+", or the token itself in "+guard.EnvToken+")")
}

// AddTLS adds those of certificates.
func AddTLS(f *pflag.FlagSet, o *guard.Options) {
	f.StringVar(&o.TLSCA, "tls-ca", "", "PEM file of the CA that signs all peers; empty: no TLS ("+guard.EnvTLSCA+")")
	f.StringVar(&o.TLSCert, "tls-cert", "", "PEM file of this process's certificate ("+guard.EnvTLSCert+")")
	f.StringVar(&o.TLSKey, "tls-key", "", "PEM file of its key ("+guard.EnvTLSKey+")")
	f.StringVar(&o.TLSServerName, "tls-server-name", "", "name that certificates of servers must carry; empty: the host that is dialled ("+guard.EnvTLSServerName+")")
	f.BoolVar(&o.TLSAnyRole, "tls-any-role", false, "take certificates that name no role for ones of any role ("+guard.EnvTLSAnyRole+")")
}

// AddServer adds the flags of a server.
func AddServer(f *pflag.FlagSet, o *guard.Options) {
	Add(f, o)
	f.BoolVar(&o.TLSAnonymous, "tls-anonymous", false, "let clients in that show no certificate")
	AddOpen(f, &o.Open)
}

// AddData adds the flag of what serves a store or has a data plane.
func AddData(f *pflag.FlagSet, o *guard.Options) {
	f.VarPF(dataValue{o}, "tls-data", "", "encrypt the data plane and the store where there are certificates ("+guard.EnvTLSData+")").
		NoOptDefVal = "true"
}

// dataValue is a flag that is true unless it is told otherwise.
type dataValue struct{ o *guard.Options }

// String implements pflag.Value.
func (v dataValue) String() string {
	return strconv.FormatBool(v.o == nil || v.o.TLSData == nil || *v.o.TLSData)
}

// Type implements pflag.Value.
func (dataValue) Type() string { return "bool" }

// Set implements pflag.Value.
func (v dataValue) Set(text string) error {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("%q, want true or false", text)
	}
	v.o.TLSData = &on
	return nil
}

// AddOpen adds the flag of whatever listens.
func AddOpen(f *pflag.FlagSet, open *bool) {
	f.BoolVar(open, "open", false, "serve whoever comes, where other hosts reach this process and nothing guards it; else that is refused ("+
		netaddr.EnvOpen+"=1)")
}

// Open fills what no flag named from the environment, and opens what is named.
func Open(o *guard.Options) (*guard.Guard, error) {
	if err := o.FromEnv(); err != nil {
		return nil, err
	}
	if err := Check(o); err != nil {
		return nil, err
	}
	g, err := guard.Open(*o)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	Add(flags, &guard.Options{})
	return g, cli.Usage(cli.Flagged(err, flags, nil))
}

// Check wants the files that o names to be there: a usage error calls them by their flags.
func Check(o *guard.Options) error {
	for _, f := range []struct{ flag, env, path, want string }{
		{"tls-ca", guard.EnvTLSCA, o.TLSCA, "the PEM file of the CA"},
		{"tls-cert", guard.EnvTLSCert, o.TLSCert, "the PEM file of a certificate"},
		{"tls-key", guard.EnvTLSKey, o.TLSKey, "the PEM file of its key"},
		{"token-file", guard.EnvTokenFile, o.TokenFile, "a file with a token"},
	} {
		if f.path == "" {
			continue
		}
		file, err := os.Open(f.path)
		if err != nil {
			return cli.Usagef("--%s (%s) = %q, want %s that can be read: %w", f.flag, f.env, f.path, f.want, errors.Unwrap(err))
		}
		_ = file.Close() // nothing was written
	}
	return nil
}
