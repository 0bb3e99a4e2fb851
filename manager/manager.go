package manager

import (
	"context"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
)

// StartOptions are the rare wishes of one StartQuorum.
type StartOptions struct {
	// ForbidHeal takes part only if up to date; a replica that is behind does
	// not load a state in this quorum.
	ForbidHeal bool
	// ShrinkOnly asks that nobody new is let in.
	ShrinkOnly bool
}

// Manager is one rank's side of the protocol.
type Manager struct {
	cfg   Config
	group *pg.Group
}

// New checks cfg, listens, and builds a Manager. It starts nothing: call Run.
func New(cfg Config) (*Manager, error) { return &Manager{cfg: cfg}, nil }

// Register names a part of the state that heals move. Call it before Run, at
// least once unless healing is never wanted. save returns views of the live
// tensors, no copies; the same views are what a heal writes into, and then load
// is told the donor's Meta and may check or rebuild what depends on it.
func (m *Manager) Register(name string, save func() checkpoint.State, load func(checkpoint.State) error) error {
	return nil
}

// Run works until ctx ends or Close is called; every goroutine of the Manager
// belongs to it. It returns nil after Close, and the cause otherwise.
func (m *Manager) Run(ctx context.Context) error { return nil }

// StartQuorum begins a step: StartQuorumWith without wishes.
func (m *Manager) StartQuorum(ctx context.Context) error {
	return m.StartQuorumWith(ctx, StartOptions{})
}

// StartQuorumWith begins a step. It asks nobody while the quorum stands.
func (m *Manager) StartQuorumWith(ctx context.Context, o StartOptions) error { return nil }

// WaitQuorum blocks until the quorum of this step is there and its group is
// configured.
func (m *Manager) WaitQuorum(ctx context.Context) error { return nil }

// Group is the managed process group: sizes and ranks are the participants',
// errors are reported to the Manager instead of returned.
func (m *Manager) Group() *pg.Group { return m.group }

// ShouldCommit ends a step and says whether the optimizer may apply it.
func (m *Manager) ShouldCommit(ctx context.Context) (bool, error) { return false, nil }

// ReportError discards the step under way.
func (m *Manager) ReportError(err error) {}

// Errored is the first error of the step under way, or nil.
func (m *Manager) Errored() error { return nil }

// Step is the number of committed updates.
func (m *Manager) Step() int64 { return 0 }

// BatchesCommitted sums the participants of all committed steps.
func (m *Manager) BatchesCommitted() int64 { return 0 }

// Position is the step and the quorum that committed it.
func (m *Manager) Position() quorum.Position { return quorum.Position{} }

// NumParticipants is the divisor of the standing quorum; 0 before the first.
func (m *Manager) NumParticipants() int { return 0 }

// ParticipantRank is this replica's index among the participants, or -1.
func (m *Manager) ParticipantRank() int { return -1 }

// IsParticipating says whether this replica's tensors count in this step.
func (m *Manager) IsParticipating() bool { return false }

// IsHealing says whether a state is being fetched or waits to be loaded.
func (m *Manager) IsHealing() bool { return false }

// QuorumID is the standing quorum's, 0 before the first.
func (m *Manager) QuorumID() int64 { return 0 }

// ReplicaID is this incarnation's full id.
func (m *Manager) ReplicaID() string { return "" }

// Drain asks to leave: see ErrDrained. Any goroutine may call it, repeatedly.
func (m *Manager) Drain() {}

// Stats returns the counts so far.
func (m *Manager) Stats() Stats { return Stats{} }

// Close ends Run and releases everything. Safe to call twice.
func (m *Manager) Close() error { return nil }
