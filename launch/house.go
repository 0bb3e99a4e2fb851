package launch

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/launch/internal/layout"
	"github.com/skerry-ft/skerry/lighthouse"
)

// steps tells what a lighthouse shows of the job's replicas.
type steps func(ctx context.Context) ([]Seen, error)

// lighthouse gives the addresses of the lighthouse, and what it shows. One of this process
// runs until ctx ends, which beside waits for.
func (l *Launcher) lighthouse(ctx context.Context, beside *sync.WaitGroup) ([]string, steps, error) {
	if len(l.cfg.Lighthouse) > 0 {
		return l.cfg.Lighthouse, l.cfg.Steps, nil
	}
	cfg := lighthouse.DefaultConfig()
	cfg.Listen, cfg.Guard, cfg.Log = l.cfg.Listen, l.cfg.Guard, l.cfg.Log
	if level := l.cfg.Log.GetLevel(); level > zerolog.DebugLevel {
		cfg.Log = l.cfg.Log.Level(max(level, zerolog.WarnLevel)) // what it does, its page shows
	}
	cfg.Rules.MinReplicas = l.cfg.MinReplicas
	s, err := lighthouse.New(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("lighthouse of this job: %w", err)
	}
	beside.Go(func() {
		if err := s.Run(ctx); err != nil {
			l.cfg.Log.Error().Err(err).Msg("lighthouse ended: the quorum that stands goes on, and no other is formed")
		}
	})
	address := reachable(s.Addr())
	scheme := "http"
	if l.cfg.Guard.TLSCA != "" {
		scheme = "https"
	}
	l.cfg.Log.Info().Str("page", scheme+"://"+address+"/").Msg("lighthouse started")
	return []string{address}, func(ctx context.Context) ([]Seen, error) { return l.ownSteps(ctx, s) }, nil
}

// ownSteps asks the lighthouse of this process.
func (l *Launcher) ownSteps(ctx context.Context, s *lighthouse.Server) ([]Seen, error) {
	st, err := s.Status(ctx)
	if err != nil {
		return nil, err
	}
	var all []Seen
	for _, j := range st.Jobs {
		if j.Job != l.cfg.Job {
			continue
		}
		for _, r := range j.Replicas {
			all = append(all, Seen{ReplicaID: r.ReplicaID, Step: r.Step, Trains: r.Participant && !r.Heals})
		}
	}
	return all, nil
}

// reachable is how ranks, which are on this host, reach an address: one of all interfaces is
// reached on loopback.
func reachable(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort(layout.Loopback, strconv.Itoa(tcp.Port))
	}
	return a.String()
}
