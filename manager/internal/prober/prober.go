// Package prober tries peers that were out of reach again and again, beside whatever else
// happens, and tells the lighthouse each time what came of it (PROTOCOL §6): whether a link
// that was cut holds again. The rules are quorum's Machine.Link.
package prober

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/manager/internal/tasks"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
)

// Times and bounds of probes.
const (
	// first is after how long a peer that was out of reach is tried again; the pause
	// grows up to last, which is well below what the lighthouse takes for silence
	// (quorum.LinkRetryAfter).
	first = 200 * time.Millisecond
	last  = 5 * time.Second
	// probeFor ends the probes of a peer that is accused no more: it may be gone.
	probeFor = time.Hour
	// maxPeers bounds the peers that are tried at one time.
	maxPeers = 64
)

// Kind is what of a peer could not be reached.
type Kind int

// What can be out of reach.
const (
	Group Kind = iota // its backend
	Store
	kinds
)

// Lighthouse is who is told.
type Lighthouse interface {
	ReportLink(quorum.LinkReport)
	ForgetLink(peer quorum.ReplicaID)
}

// Prober has the peers that were out of reach, and are tried again. Safe for concurrent
// use; New makes one.
type Prober struct {
	by         quorum.ReplicaID
	lighthouse Lighthouse
	tasks      *tasks.Tasks
	log        zerolog.Logger

	mu struct {
		sync.Mutex

		peers map[quorum.ReplicaID]*peer
	}
}

// peer is one that was out of reach.
type peer struct {
	stop  context.CancelCauseFunc            // ends its probes
	tries [kinds]func(context.Context) error // what could not be reached; nil: could
}

// New makes the prober of replica by, whose probes run on t. Only group rank 0 has a
// session with the lighthouse: without one (nil) nothing is tried, and the lighthouse
// goes by time.
func New(by quorum.ReplicaID, l Lighthouse, t *tasks.Tasks, log zerolog.Logger) *Prober {
	p := &Prober{by: by, lighthouse: l, tasks: t, log: log}
	p.mu.peers = make(map[quorum.ReplicaID]*peer)
	return p
}

// Probe tries what of a peer was out of reach until it is [Prober.Reached]. It does not
// block.
func (p *Prober) Probe(id quorum.ReplicaID, kind Kind, try func(context.Context) error) {
	if p.lighthouse == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &peer{}
	if old := p.mu.peers[id]; old != nil {
		old.stop(nil) // the pauses begin anew
		next.tries = old.tries
	} else if len(p.mu.peers) >= maxPeers {
		return
	}
	next.tries[kind] = try
	p.mu.peers[id] = next
	next.stop = p.tasks.Start(func(ctx context.Context) { p.run(ctx, next, id) })
}

// Reached ends the probes of those who are in one group with this rank now.
func (p *Prober) Reached(ids ...quorum.ReplicaID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		p.forgetLocked(id)
	}
}

// Len is how many peers are tried.
func (p *Prober) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.peers)
}

func (p *Prober) run(ctx context.Context, of *peer, id quorum.ReplicaID) {
	pauses := backoff.Backoff{First: first, Most: last, Factor: 1.5}
	for end := time.Now().Add(probeFor); time.Now().Before(end); {
		if pauses.Wait(ctx) != nil {
			return
		}
		r := quorum.LinkReport{By: p.by, To: id, Holds: true}
		for _, try := range of.tries {
			if try == nil {
				continue
			}
			if err := try(ctx); errors.Is(err, pg.ErrUnsupported) {
				return // and be silent: time tells
			} else if err != nil {
				r.Holds, r.Evidence = false, err.Error()
			}
		}
		p.report(ctx, r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() == nil {
		p.forgetLocked(id)
	}
}

// report tells of a peer that is still probed: ctx ends with the probes.
func (p *Prober) report(ctx context.Context, r quorum.LinkReport) {
	p.mu.Lock()
	probed := ctx.Err() == nil
	if probed {
		p.lighthouse.ReportLink(r)
	}
	p.mu.Unlock()
	if probed {
		p.log.Debug().Str(logkey.Peer, string(r.To)).Bool("holds", r.Holds).Str(logkey.Reason, r.Evidence).Msg("link tried")
	}
}

// forgetLocked ends the probes of a peer.
func (p *Prober) forgetLocked(id quorum.ReplicaID) {
	if of := p.mu.peers[id]; of != nil {
		of.stop(nil)
		delete(p.mu.peers, id)
		p.lighthouse.ForgetLink(id)
	}
}
