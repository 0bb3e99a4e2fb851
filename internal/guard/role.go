package guard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Role is what the holder of a certificate is. The certificate says it in a URI
// among its alternative names: skerry://role/replica.
type Role string

// The roles.
const (
	NoRole     Role = "" // the certificate names none: see Options.TLSAnyRole
	Lighthouse Role = "lighthouse"
	Replica    Role = "replica"
	Operator   Role = "operator"
)

// ParseRole reads the name of a role.
func ParseRole(name string) (Role, error) {
	switch r := Role(name); r {
	case Lighthouse, Replica, Operator:
		return r, nil
	}
	return NoRole, fmt.Errorf("role = %q, want %s, %s or %s", name, Lighthouse, Replica, Operator)
}

// serves says whether the holder is ever dialled.
func (r Role) serves() bool { return r != Operator }

// The URIs that say who a certificate is for: scheme, kind, and "/NAME".
const (
	uriScheme = "skerry"
	uriRole   = "role"
	uriJob    = "job"
)

// Party is who a certificate is for: a role and, of a replica alone, the one job
// that it is bound to, if any.
type Party struct {
	Role Role
	Job  string // empty: any
}

// Bound says that the party may have to do with job Job alone.
func (p Party) Bound() bool { return p.Job != "" }

// uris are those of p's certificate.
func (p Party) uris() []*url.URL {
	var all []*url.URL
	if p.Role != NoRole {
		all = append(all, &url.URL{Scheme: uriScheme, Host: uriRole, Path: "/" + string(p.Role)})
	}
	if p.Job != "" {
		all = append(all, &url.URL{Scheme: uriScheme, Host: uriJob, Path: "/" + p.Job})
	}
	return all
}

// validate says what is wrong with p.
func (p Party) validate() error {
	if p.Bound() && p.Role != Replica {
		return fmt.Errorf("job = %q with role %q, want a job with role %s alone", Shown(p.Job), p.Role, Replica)
	}
	return nil
}

// PartyOf reads who a certificate is for. URIs of other schemes are not looked at;
// one of ours that is not understood, or a second one of its kind, is an error: the
// certificate would mean more, or less, than its signer said.
func PartyOf(cert *x509.Certificate) (Party, error) {
	var p Party
	for _, u := range cert.URIs {
		if u.Scheme != uriScheme {
			continue
		}
		name, ok := strings.CutPrefix(u.Path, "/")
		role, err := ParseRole(name)
		switch {
		case ok && name != "" && u.Host == uriJob && p.Job == "":
			p.Job = name
		case ok && err == nil && u.Host == uriRole && p.Role == NoRole:
			p.Role = role
		default:
			return Party{}, fmt.Errorf("certificate %s names %s, want one skerry://role/ROLE and at most one skerry://job/NAME", called(cert), Shown(u.String()))
		}
	}
	if err := p.validate(); err != nil {
		return Party{}, fmt.Errorf("certificate %s: %w", called(cert), err)
	}
	return p, nil
}

// called is how errors name a certificate, which anybody may have written.
func called(cert *x509.Certificate) string {
	if cert.Subject.CommonName == "" {
		return Shown(fmt.Sprintf("with serial number %x", cert.SerialNumber))
	}
	return Shown(fmt.Sprintf("%q", cert.Subject.CommonName))
}

// Name is what the holder of a certificate is called where people read of it.
func Name(cert *x509.Certificate) string {
	if name := Shown(cert.Subject.CommonName); name != "" {
		return name
	}
	return fmt.Sprintf("certificate %x", cert.SerialNumber)
}

// CallerName is the Name of a caller's certificate of the cluster's CA; empty: it has none.
func CallerName(ctx context.Context) string {
	if state := stateOf(ctx); Verified(state) {
		return Name(state.PeerCertificates[0])
	}
	return ""
}

// PeerOf says who the other end of a connection has shown to be: the one place
// where a certificate becomes a role and a job. ErrDenied: it has shown no
// certificate of the CA, or one that is not understood.
func PeerOf(state *tls.ConnectionState) (Party, error) {
	if !Verified(state) {
		return Party{}, fmt.Errorf("%w: this needs a certificate of the cluster's CA", ErrDenied)
	}
	p, err := PartyOf(state.PeerCertificates[0])
	if err != nil {
		return Party{}, fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return p, nil
}

// Admit says why the other end of a connection may not act as one of roles; nil:
// it may. A replica must be of job, if both it and the caller name one.
func (i *Identity) Admit(state *tls.ConnectionState, job string, roles ...Role) error {
	p, err := PeerOf(state)
	if err == nil {
		err = i.admit(p, called(state.PeerCertificates[0]), job, roles)
	}
	return err
}

func (i *Identity) admit(p Party, name, job string, roles []Role) error {
	switch {
	case p.Role == NoRole && i.anyRole:
		return nil
	case p.Role == NoRole:
		return fmt.Errorf("%w: certificate %s has no role, want %s: sign it anew with lighthouse ca --role, or with "+
			"the URI skerry://role/%s; --tls-any-role takes it meanwhile", ErrDenied, name, either(roles), roles[0])
	case !slices.Contains(roles, p.Role):
		return fmt.Errorf("%w: certificate %s has role %s, want %s", ErrDenied, name, p.Role, either(roles))
	case p.Bound() && job != "" && p.Job != job:
		return fmt.Errorf("%w: certificate %s is bound to job %q, and this is job %q", ErrDenied, name, Shown(p.Job), job)
	}
	return nil
}

func either(roles []Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, " or ")
}

// CheckRole checks that the other end of a call acts as one of roles, if there is
// a CA and clients need a certificate; and, with a job, that it is not bound to
// another one.
func (g *Guard) CheckRole(ctx context.Context, job string, roles ...Role) error {
	if !g.AsksClients() {
		return nil
	}
	return g.TLS.Admit(stateOf(ctx), job, roles...)
}

// CheckFellow is CheckRole for a lighthouse, though clients may come without a
// certificate: lighthouses have one. g has TLS.
func (g *Guard) CheckFellow(ctx context.Context) error {
	return g.TLS.Admit(stateOf(ctx), "", Lighthouse)
}

// BoundTo is the job that the other end of a call is bound to; empty: none.
func (g *Guard) BoundTo(ctx context.Context) string {
	if !g.AsksClients() {
		return ""
	}
	p, _ := PeerOf(stateOf(ctx)) // CheckRole refuses whom this does not understand
	return p.Job
}

// AsksClients says whether who calls must show a certificate.
func (g *Guard) AsksClients() bool { return g.TLS != nil && !g.Anonymous && !g.Adopt.Lenient() }

// TakesAnyRole says that a certificate without a role is good for any.
func (g *Guard) TakesAnyRole() bool { return g.TLS != nil && g.TLS.anyRole }

// CheckOwn says why this process's own certificate would not be taken for role by
// its peers, so that a wrong file is told at the start. It is looked at once.
func (g *Guard) CheckOwn(job string, role Role) error {
	if g.TLS == nil || !g.TLS.HasCertificate() {
		return nil
	}
	leaf := g.TLS.files.get().certificate.Leaf
	p, err := PartyOf(leaf)
	if err == nil {
		err = g.TLS.admit(p, called(leaf), job, []Role{role})
	}
	if err == nil {
		err = g.TLS.Expiry().check(time.Now())
	}
	if err != nil {
		return fmt.Errorf("own certificate: %w", err)
	}
	return nil
}
