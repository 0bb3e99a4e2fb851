package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// establishRetry is how long a leader waits that could not establish its leadership.
const establishRetry = 100 * time.Millisecond

// Leader is what a server does while it leads. Run calls its methods, one at a time.
type Leader interface {
	// Establish begins what a leader does. The ledger holds all that was committed
	// before term; the leader's decisions name term, and the ledger refuses them once
	// there is a later one. It starts what is to be done and returns. An error that
	// matches ErrNotLeader makes Run try again while raft still leads; any other ends Run.
	Establish(ctx context.Context, l *Ledger, term uint64) error

	// Revoke ends what Establish began, and returns when it has ended. It is also
	// called when nothing was begun.
	Revoke()
}

// Start opens the ledger of a server alone, which takes as long as its disk does. Call
// it before the server answers anybody: callers then wait, rather than hear that there
// is no leader. For one of several servers it does nothing: the others find it by what
// it answers.
func (n *Node) Start() error {
	if n.several {
		return nil
	}
	_, err := n.open()
	return err
}

// Run finds the cluster, if this server is one of several, and takes part in it
// until ctx ends: it keeps the servers together, and leads through leader whenever
// raft says so. It returns nil then, when its goroutines have ended. Raft goes on
// until Close, so that calls under way are answered. Errors: what waiting cannot
// mend, as data of another cluster; this server was taken out of the cluster.
func (n *Node) Run(ctx context.Context, leader Leader) error {
	l := n.Ledger()
	if n.several {
		err := n.join(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if l, err = n.open(); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	if n.several {
		g.Go(func() error { return n.watch(ctx, l) })
		g.Go(func() error { return n.tend(ctx, l) })
	}
	g.Go(func() error {
		if n.several {
			defer n.handOver(l)
		}
		return n.lead(ctx, l, leader)
	})
	return g.Wait()
}

// lead establishes and revokes the leadership as raft says, until ctx ends.
func (n *Node) lead(ctx context.Context, l *Ledger, leader Leader) error {
	t := terms{
		log: n.cfg.Log, began: l.raft.LeaderCh(), leads: l.leads,
		establish: func(ctx context.Context) error {
			defer n.leaderMoved()
			term, err := l.catchUp()
			if err == nil {
				err = leader.Establish(ctx, l, term)
			}
			return err
		},
		revoke: func() {
			leader.Revoke()
			n.leaderMoved()
		},
	}
	return t.run(ctx)
}

// terms are the times in which a server leads.
type terms struct {
	log       zerolog.Logger
	began     <-chan bool // raft's: this server leads from now on, or no longer
	leads     func() bool // it does now
	establish func(context.Context) error
	revoke    func()
}

// run establishes the leadership when raft says so, and revokes it. If raft cannot
// take the leader's first commands yet, while it goes on leading, the leadership is
// established a little later.
func (t *terms) run(ctx context.Context) error {
	defer t.revoke()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case leads := <-t.began:
			// Two "true" in a row mean that the leadership was lost between.
			t.revoke()
			again = nil
			if !leads {
				t.log.Warn().Msg("leadership lost")
				continue
			}
		case <-again:
			again = nil
			if !t.leads() {
				continue // began says when it does
			}
		}
		err := t.establish(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, ErrNotLeader), errors.Is(err, raft.ErrEnqueueTimeout):
			t.log.Warn().Err(err).Msg("leadership not established")
			again = time.After(establishRetry)
		default:
			return err
		}
	}
}

// catchUp returns the term in which this server leads, once the ledger holds all
// that was committed before it, has the cluster's id, and gives ids that no other
// copy of it has given.
func (l *Ledger) catchUp() (uint64, error) {
	term := l.raft.CurrentTerm()
	if err := l.barrier(); err != nil {
		return 0, fmt.Errorf("catch up with the raft log: %w", err)
	}
	// What was caught up with in one term says nothing about the next.
	if now := l.raft.CurrentTerm(); now != term {
		return 0, fmt.Errorf("catch up with the raft log: %w: term %d has ended, it is %d", ErrNotLeader, term, now)
	}
	if l.state.cluster() == "" {
		if err := l.Apply(Command{Kind: commandFound, Cluster: cmp.Or(l.cfg.cluster, uuid.NewString())}); err != nil {
			return 0, fmt.Errorf("found the cluster: %w", err)
		}
	}
	if err := l.riseAlone(); err != nil {
		return 0, fmt.Errorf("raise the quorum ids: %w", err)
	}
	return term, nil
}

// riseAlone makes all quorum ids to come of a lighthouse of one server that keeps
// what it writes rise above the clock's milliseconds. Its disk may be an older copy of what it
// was: quorums that it formed since would get their ids a second time, and the
// positions committed in both would be taken for one. Several servers notice an
// older copy by each other, and a server that keeps nothing begins above the clock.
func (l *Ledger) riseAlone() error {
	if l.cfg.dir == nil && l.cfg.Memory == nil {
		return nil
	}
	f := l.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return leadershipError(err)
	}
	voters := 0
	for _, server := range f.Configuration().Servers {
		if server.Suffrage == raft.Voter {
			voters++
		}
	}
	if voters != 1 {
		return nil
	}
	return l.Apply(Command{Kind: commandRise, UnixMs: time.Now().UnixMilli()})
}
