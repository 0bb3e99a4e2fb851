package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/manager/internal/replica"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/store"
)

// Run works until ctx ends or Close is called; every goroutine of the Manager
// belongs to it and has ended when it returns. It returns nil after Close, and
// the cause otherwise. Call it once.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan struct{})
	m.mu.Lock()
	if m.mu.life.stopped != nil || m.mu.final != nil {
		err := m.mu.final
		m.mu.Unlock()
		return errors.Join(errors.New("manager: Run was called before, or after Close"), err)
	}
	m.mu.life.cancel, m.mu.life.stopped = cancel, stopped
	m.mu.Broadcast()
	m.mu.life.points = failpoint.From(ctx)
	m.mu.Unlock()
	defer close(stopped)
	m.logConfig()
	var wg sync.WaitGroup
	fatal := func(err error) {
		if err != nil && ctx.Err() == nil {
			cancel(err)
		}
	}
	if m.replica != nil {
		wg.Go(func() { fatal(m.replica.Run(ctx)) })
	}
	if r, ok := m.transport.(checkpoint.Runner); ok {
		wg.Go(func() { fatal(r.Run(ctx)) })
	}
	wg.Go(func() { m.tasks.Run(ctx) })
	wg.Go(func() { m.guard.TellExpiry(ctx, m.log) })
	wg.Go(func() { fatal(m.connect(ctx)) })
	<-ctx.Done()
	cause := context.Cause(ctx)
	m.setFinal(ErrClosed)
	closed := m.closeParts()
	wg.Wait()
	if errors.Is(cause, ErrClosed) {
		return closed
	}
	return errors.Join(cause, closed)
}

// awaitRun waits for Run, or the end, as long as it may take to find a lighthouse.
func (m *Manager) awaitRun(ctx context.Context) error {
	begun := func() bool { return m.mu.life.stopped != nil || m.mu.life.closing || m.mu.final != nil }
	err := m.mu.Await(ctx, m.timeouts.Connect, begun)
	if errors.Is(err, monitor.ErrTimeout) {
		return ErrNotRunning
	}
	return err
}

// closeParts releases what New took, in this order: the group, so that pending
// collectives fail; the state's server; the metrics.
func (m *Manager) closeParts() error {
	m.metrics.Close()
	return errors.Join(m.tracked.Close(), m.transport.Close())
}

// Close says goodbye to the lighthouse, ends Run, waits for it, and releases
// everything: pending collectives fail with pg.ErrClosed, StartQuorum and
// ShouldCommit return ErrClosed. Safe to call twice, and without Run.
func (m *Manager) Close() error {
	m.mu.Lock()
	cancel, stopped := m.mu.life.cancel, m.mu.life.stopped
	closing := m.mu.life.closing
	m.mu.life.closing = true
	m.mu.Unlock()
	if stopped != nil {
		m.sayGoodbye()
		cancel(ErrClosed)
		<-stopped
		return nil
	}
	m.setFinal(ErrClosed)
	if closing {
		return nil
	}
	err := m.closeParts()
	if m.replica != nil {
		err = errors.Join(err, m.replica.Close())
	}
	return err
}

// goodbyePatience bounds how long Close waits for its last word to be heard;
// without it the lighthouse finds out by the broken stream.
const goodbyePatience = time.Second

// sayGoodbye leaves, for the reason for which training cannot go on, if there is one.
func (m *Manager) sayGoodbye() {
	if m.replica == nil {
		return
	}
	m.mu.Lock()
	why := ""
	if m.mu.final != nil {
		why = m.mu.final.Error()
	}
	m.mu.Unlock()
	m.replica.Goodbye(why, goodbyePatience)
}

// Names under which group rank 0 publishes itself in the group's store, as
// torchft does.
const (
	keyManager = "manager_addr"
	keyReplica = "replica_id"
)

// connect finds the replica's server and listens to it.
func (m *Manager) connect(ctx context.Context) error {
	if m.replica != nil {
		if err := m.publish(ctx); err != nil {
			return err
		}
		m.link = m.replica.Link()
	} else {
		far, err := m.discover(ctx)
		if err != nil {
			return err
		}
		defer far.Close() //nolint:errcheck // nothing is lost with it
		m.link = far
	}
	close(m.linked)
	switch err := m.link.Notices(ctx, m.noticed); {
	case ctx.Err() != nil:
		return nil
	case isFinal(err): // Run goes on until Close: peers may still fetch from here
		m.linkEnded(err)
		return nil
	default:
		return fmt.Errorf("listen to the replica's manager: %w", err)
	}
}

// publish tells the other ranks where this one is.
func (m *Manager) publish(ctx context.Context) error {
	if m.cfg.GroupWorldSize == 1 {
		return nil
	}
	s, err := m.openGroupStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // nothing is lost with it
	err = s.MultiSet(ctx, []string{keyManager, keyReplica}, [][]byte{[]byte(m.replica.Address()), []byte(m.id)})
	if err != nil {
		return fmt.Errorf("publish the manager in the group store %s: %w", m.cfg.GroupStore, err)
	}
	return nil
}

// discover finds group rank 0.
func (m *Manager) discover(ctx context.Context) (*replica.Remote, error) {
	s, err := m.openGroupStore(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // nothing is lost with it
	values, err := s.MultiGet(ctx, []string{keyManager, keyReplica})
	if err != nil {
		return nil, fmt.Errorf("find group rank 0 in the group store %s: %w", m.cfg.GroupStore, err)
	}
	m.id = quorum.ReplicaID(values[1])
	m.logID.set(m.id)
	return replica.NewRemote(m.guard, m.cfg.Network, m.sibling(), string(values[0]), m.cfg.GroupRank, m.timeouts.ofReplica())
}

func (m *Manager) openGroupStore(ctx context.Context) (store.Store, error) {
	dctx, cancel := context.WithTimeout(ctx, m.timeouts.Connect)
	defer cancel()
	client := store.ClientConfig{Timeout: m.timeouts.Connect, Dial: storeDial(m.cfg.Network)}
	if !m.cfg.PlainGroupStore {
		client.TLS = m.dataTLS
	}
	s, err := store.Open(dctx, m.cfg.GroupStore, client)
	if errors.Is(err, store.ErrTLS) && client.TLS != nil {
		err = fmt.Errorf("%w; a group store that is PyTorch's takes PlainGroupStore (SKERRY_PLAIN_GROUP_STORE=true)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the group store %s: %w", m.cfg.GroupStore, err)
	}
	return s, nil
}

// logConfig shows the configuration in force, once.
func (m *Manager) logConfig() {
	t := m.timeouts
	e := m.log.Info().Str(logkey.Job, m.cfg.Job).Int("group_world_size", m.cfg.GroupWorldSize).
		Strs("lighthouse", m.cfg.Lighthouse).Int("min_replicas", m.cfg.MinReplicas).
		Int("fixed_world_size", m.cfg.FixedWorldSize).Bool("sync", m.cfg.Sync).Bool("every_step", m.cfg.EveryStep)
	if m.replica != nil {
		e = e.Str(logkey.Addr, m.replica.Address())
	}
	e.Dur("step_ms", t.Step).Dur("heal_ms", t.Heal).Dur("quorum_ms", t.Quorum).Dur("settle_ms", t.Settle).
		Dur("vote_ms", t.Vote).Dur("configure_ms", t.Configure).Dur("connect_ms", t.Connect).Dur("dial_ms", t.Dial).
		Dur("call_ms", t.Call).Dur("drain_ms", t.Drain).Dur("linger_ms", t.Linger).Msg("manager started")
}
