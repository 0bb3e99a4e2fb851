package manager

import (
	"crypto/tls"
	"fmt"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/guard"
)

// Guard says which certificate and which token a Manager has; its zero value
// guards nothing but what every quorum's own token does: store, data plane and
// heals. See docs/SECURITY.md.
type Guard = guard.Options

// sibling is what this manager dials to reach one of its job.
func (m *Manager) sibling() guard.Party { return guard.Party{Role: guard.Replica, Job: m.cfg.Job} }

// joinTokenOf refuses a join token of another job than the one that is joined.
func joinTokenOf(job string) func(of string) error {
	return func(of string) error {
		if of == "" || of == job {
			return nil
		}
		return fmt.Errorf("Job = %q (SKERRY_JOB), and the join token is of job %q: want the token that skerry token --job %s prints, or that job",
			job, of, job)
	}
}

// healTLS is the TLS of the heal transport, or nil.
func (m *Manager) healTLS() *checkpoint.TLS {
	if !m.guard.Serves() {
		return nil
	}
	return &checkpoint.TLS{
		Server: m.guard.ServerFor(m.cfg.Job, guard.Replica),
		Client: func(host string) *tls.Config { return m.guard.TLS.Client(host, m.sibling()) },
	}
}
