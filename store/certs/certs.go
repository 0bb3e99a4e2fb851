// Package certs makes a [store.TLS] of files, or of the environment: for programs
// that have no manager ([dist.InitConfig]), and for child processes. A manager makes
// its own of Config.Guard.
//
// Both ends are replicas, by the role that their certificates name, and of the same
// job, if they are bound to one; see docs/SECURITY.md. Files are read again when they
// change, for connections made from then on.
//
// [dist.InitConfig]: https://pkg.go.dev/github.com/skerry-ft/skerry/dist#InitConfig
package certs

import (
	"crypto/tls"
	"fmt"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/store"
)

// Of makes it of g, which was opened with o, for members of job; nil if g has no
// certificate to serve with, or o says that data shall not be encrypted.
func Of(g *guard.Guard, o guard.Options, job string) *store.TLS {
	if !g.Serves() || !o.EncryptsData() {
		return nil
	}
	return &store.TLS{
		Server: g.ServerFor(job, guard.Replica),
		Client: func(host string) *tls.Config {
			return g.TLS.Client(host, guard.Party{Role: guard.Replica, Job: job})
		},
		Files: store.TLSFiles{
			CA: o.TLSCA, Cert: o.TLSCert, Key: o.TLSKey, ServerName: o.TLSServerName,
			Job: job, AnyRole: o.TLSAnyRole, Anonymous: o.TLSAnonymous,
		},
	}
}

// Open reads the files. It fails if they cannot be read, or if peers would not take
// the certificate for a replica's of the job.
func Open(f store.TLSFiles) (*store.TLS, error) {
	return open(guard.Options{
		TLSCA: f.CA, TLSCert: f.Cert, TLSKey: f.Key, TLSServerName: f.ServerName,
		TLSAnyRole: f.AnyRole, TLSAnonymous: f.Anonymous,
	}, f.Job)
}

// FromEnv reads the files that SKERRY_TLS_CA, SKERRY_TLS_CERT, SKERRY_TLS_KEY,
// SKERRY_TLS_SERVER_NAME and SKERRY_TLS_ANY_ROLE name; nil if they name no
// certificate, or SKERRY_TLS_DATA is false. job may be empty.
func FromEnv(job string) (*store.TLS, error) {
	var o guard.Options
	if err := o.FromEnv(); err != nil {
		return nil, fmt.Errorf("certificates from the environment: %w", err)
	}
	return FromOptions(o, job)
}

// FromOptions is FromEnv for options that are complete.
func FromOptions(o guard.Options, job string) (*store.TLS, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("certificates of the data plane and the store: %w", err)
	}
	if !o.EncryptsData() {
		return nil, nil
	}
	return open(o, job)
}

func open(o guard.Options, job string) (*store.TLS, error) {
	g, err := guard.Open(o)
	if err != nil {
		return nil, fmt.Errorf("certificates of the data plane and the store: %w", err)
	}
	if err := g.CheckOwn(job, guard.Replica); err != nil {
		return nil, fmt.Errorf("certificates of the data plane and the store: %w", err)
	}
	t := Of(g, o, job)
	if t == nil {
		return nil, fmt.Errorf("certificates of the data plane and the store: CA = %q, Cert = %q, want both, and Key", o.TLSCA, o.TLSCert)
	}
	return t, nil
}
