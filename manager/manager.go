package manager

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/pgcarrier"
	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/manager/internal/events"
	"github.com/skerry-ft/skerry/manager/internal/incident"
	"github.com/skerry-ft/skerry/manager/internal/listen"
	"github.com/skerry-ft/skerry/manager/internal/metrics"
	"github.com/skerry-ft/skerry/manager/internal/prober"
	"github.com/skerry-ft/skerry/manager/internal/replica"
	"github.com/skerry-ft/skerry/manager/internal/state"
	"github.com/skerry-ft/skerry/manager/internal/tasks"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/certs"
)

// Manager is one rank's side of the protocol. StartQuorum, the collectives and
// ShouldCommit belong to one goroutine of the trainer; everything else is safe
// for concurrent use. The zero value is not usable: see New.
type Manager struct {
	cfg        Config
	guard      *guard.Guard
	dataTLS    *store.TLS // of the data plane and the store; nil: they are plain
	timeouts   Timeouts
	log        zerolog.Logger
	sampled    zerolog.Logger // for the lines that strangers cause
	sampler    *guard.Sampler // counts those that are left out
	backend    pg.Backend     // below Managed: counts what is issued
	managed    *pg.Managed    // above it
	tracked    *tracked       // above that: knows what is under way
	group      *pg.Group
	transport  checkpoint.Transport
	states     state.Parts
	replica    *replica.Replica // group rank 0 only: the replica's server and what it needs
	tasks      *tasks.Tasks
	events     events.Events[Event]
	metrics    *metrics.Metrics
	presence   presence
	probes     *prober.Prober // peers that were out of reach
	healBytes  atomic.Uint64
	comparison *state.Comparison // of the open attempt; the trainer's goroutine's
	balloting  atomic.Int32      // ballots that are out
	linked     chan struct{}     // closed once link and id are set
	logID      logID
	link       replica.Link
	id         quorum.ReplicaID

	unhealable sync.Once // that nothing is registered was told

	mu struct {
		monitor.Monitor

		rank    quorum.Rank // what this rank holds, has been told, has promised and wants
		attempt attempt     // at the step under way
		request *request    // what works the rank's wish for a quorum; nil: it has none
		group   pg.Epoch    // that the process group was configured for last
		heals   heals       // the state that moves to this rank, and who has the tensors
		ahead   ahead       // the copy of a state before the first join
		drain   drain       // this replica leaves
		final   error       // training cannot go on
		life    life        // of Run
		phase   quorum.Phase
		stats   Stats

		incident incident.Incident // how the last quorum fell, and what that costs
	}
}

// life is where Run and Close are. Guarded by Manager.mu.
type life struct {
	closing bool                    // Close was called
	cancel  context.CancelCauseFunc // ends Run
	stopped chan struct{}           // closed when Run has ended; nil before it began
	points  failpoint.Hook          // of the context that Run runs in
}

// New checks cfg, listens, and builds a Manager. It starts nothing: call Run. Where
// the lighthouse has a name it looks it up, and fails after some seconds if nobody
// knows it.
// After an error nothing is open, except cfg.Backend and cfg.Transport, which
// stay the caller's.
func New(cfg Config) (*Manager, error) {
	unset := cfg.Listen == ""
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	g, err := guard.Open(cfg.Guard)
	if err == nil {
		cfg.Listen, err = listen.Place{
			Listen: cfg.Listen, Advertise: cfg.Advertise, Unset: unset, Lighthouse: cfg.Lighthouse,
			GroupRank: cfg.GroupRank, GroupStore: cfg.GroupStore, Anywhere: cfg.Network != nil,
		}.Settle(g)
	}
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if err := g.CheckOwn(cfg.Job, guard.Replica); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if err := g.Token.Require(joinTokenOf(cfg.Job)); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	m := &Manager{cfg: cfg, guard: g, dataTLS: certs.Of(g, cfg.Guard, cfg.Job), timeouts: deriveTimeouts(cfg.StepTimeout, cfg.HealTimeout)}
	m.log = cfg.Log.With().Str(logkey.Component, "manager").Int(logkey.GroupRank, cfg.GroupRank).Logger().Hook(&m.logID)
	m.sampled, m.sampler = guard.Sampled(m.log)
	m.presence = newPresence()
	m.tasks = tasks.New()
	m.linked = make(chan struct{})
	m.mu.rank = quorum.NewRank(quorum.RankConfig{
		GroupRank: cfg.GroupRank, GroupWorldSize: cfg.GroupWorldSize, MinReplicas: cfg.MinReplicas,
		FixedWorldSize: cfg.FixedWorldSize, Sync: cfg.Sync, NoInitSync: cfg.NoInitSync, EveryStep: cfg.EveryStep,
		ParityEvery: cfg.ParityEvery, ParityWhole: cfg.ParityWhole,
	})
	m.mu.rank.Start(cfg.Start.Position, cfg.Start.Batches)
	m.events.Tell = m.told
	m.transport = cfg.Transport
	if err := m.open(); err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	m.probes = prober.New(m.id, nil, m.tasks, m.log) // of a rank above 0, which has no session
	if m.replica != nil {
		m.probes = prober.New(m.id, m.replica, m.tasks, m.log)
	}
	m.backend = &issued{Backend: cfg.Debug.Wrap("replicate", cfg.Backend), m: m}
	m.managed = pg.NewManaged(m.backend, participation{m})
	m.metrics = newMetrics(m)
	m.tracked = newTracked(m.managed, m.move, m.metrics)
	m.group = pg.NewGroup(m.tracked)
	return m, nil
}

// open makes the listeners: the heal transport's, and in group rank 0 those of
// the store and the manager server.
func (m *Manager) open() error {
	host, _, err := net.SplitHostPort(m.cfg.Listen)
	if err != nil {
		return fmt.Errorf("Listen = %q, want host:port: %w", m.cfg.Listen, err)
	}
	var made checkpoint.Transport
	if m.transport == nil {
		listen := net.JoinHostPort(host, "0")
		ln, err := replica.Listen(m.cfg.Network, listen)
		if err != nil {
			return fmt.Errorf("listen for heals: %w", err)
		}
		var carrier checkpoint.Carrier
		if m.cfg.HealBackend != nil {
			carrier, err = pgcarrier.New(pgcarrier.Config{
				Open: m.cfg.HealBackend, Host: host, Advertise: m.cfg.Advertise, TLS: m.dataTLS,
			})
		}
		if err == nil {
			made, err = checkpoint.NewHTTP(checkpoint.HTTPConfig{
				Listen: listen, Listener: ln, Dial: storeDial(m.cfg.Network), Carrier: carrier,
				Advertise: m.cfg.Advertise, Guarded: true, TLS: m.healTLS(), Log: m.log,
			})
		}
		if err != nil {
			_ = ln.Close() // it was never used
			return err
		}
		m.transport = made
	}
	if m.cfg.GroupRank != 0 {
		return nil
	}
	m.id = quorum.ReplicaID(m.cfg.ReplicaID + ":" + uuid.NewString())
	m.logID.set(m.id)
	m.replica, err = replica.New(replica.Config{
		ID: m.id, Job: m.cfg.Job, GroupWorldSize: m.cfg.GroupWorldSize, EveryStep: m.cfg.EveryStep, TotalSteps: m.cfg.TotalSteps,
		Lighthouse: m.cfg.Lighthouse, Listen: m.cfg.Listen, Advertise: m.cfg.Advertise,
		Guard: m.guard, TLS: m.dataTLS, Network: m.cfg.Network, Timeouts: m.timeouts.ofReplica(),
		Log: m.log, Sampled: m.sampled, OnKill: m.cfg.OnKill,
		Beat: m.beat, Final: m.setFinal,
		Admit: m.admit, Metrics: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.metrics.ServeHTTP(w, r) }),
		Found: func(address string) { m.events.Emit(LighthouseFound{Address: address}) },
		Lost:  func(cause error) { m.events.Emit(LighthouseLost{Cause: cause}) },
	})
	if err != nil {
		if made != nil {
			_ = made.Close() // it was never used
		}
		return err
	}
	return nil
}

// StateOptions are the rare wishes for one part of the state.
type StateOptions struct {
	// Local says that the part is this replica's own: heals move it, and nobody
	// compares it with that of the others. Say so of what replicas may hold
	// differently at one step: the optimizer of inner steps that are not reduced, a
	// random state, a position in the data. A part that differs by design and is not
	// Local is healed away, again and again, and its replica is refused for it. The
	// same in all replicas.
	Local bool

	// Volatile says that the trainer changes the part between StartQuorum and
	// ShouldCommit: statistics of a BatchNorm, a random generator, the position of a
	// loader. Save is then called in each StartQuorum, on the trainer's goroutine, and
	// what it returns is copied and given to others; a heal writes it back on that
	// goroutine too. So a reader gets it as it was before the forward pass. Each step
	// pays for the copy: keep large tensors that stand still in a part of their own.
	// It is compared with nothing, like a Local one.
	//
	// A loop that draws a batch before StartQuorum lets save return the loader's
	// position from before that. What a step changed that is discarded, the trainer
	// changes back, if it wants that.
	Volatile bool

	// Room is how many bytes of tensors the part takes that save does not return yet,
	// such as the state that an optimizer makes at its first step. Load finds them in
	// State.Tensors, beside save's; they are the part's from then on, and save returns
	// them. A tensor of save's that the donors do not have is left as it is, and is not
	// in State.Tensors. 0: the names must be the same, else StartQuorum or ShouldCommit
	// returns a *safetensors.MismatchError.
	Room int64
}

// admit says whether this replica can train in a quorum, before its ranks get it.
func (m *Manager) admit(q *quorum.Quorum) error {
	if err := listen.Astray(m.Address(), m.id, q); err != nil {
		return fmt.Errorf("%w: %w", ErrAstray, err)
	}
	return nil
}

// Register names a part of the state that heals move. Call it before Run, at
// least once unless healing is never wanted. save returns views of the live
// tensors, no copies, always with the same names and shapes; the same views are
// what a heal writes into, and then load is told the donor's Meta, with the
// tensors as they now are. load may be nil. A save that cannot give its state returns
// checkpoint.State.Absent: then there is nothing to heal from, or to compare, in this step.
//
// From the return of StartQuorum to that of ShouldCommit nothing may write to the
// tensors: other replicas read them. Save is called in that time, from another
// goroutine, in steps in which somebody reads. What the forward pass changes, and
// what gets its names and shapes later, is registered by RegisterWith.
//
// Replicas at one step hold the same bytes, and that is checked: in every
// Config.ParityEvery-th step a slice of the tensors is read and compared with that of
// the others. What is a replica's own is registered by RegisterWith, as Local;
// metadata is not compared.
func (m *Manager) Register(name string, save func() checkpoint.State, load func(checkpoint.State) error) error {
	return m.RegisterWith(name, save, load, StateOptions{})
}

// RegisterWith is Register for a part with wishes of its own.
func (m *Manager) RegisterWith(
	name string, save func() checkpoint.State, load func(checkpoint.State) error, o StateOptions,
) error {
	m.mu.Lock()
	began := m.mu.life.stopped != nil
	m.mu.Unlock()
	if began {
		return fmt.Errorf("manager: register state %q: Run has begun", name)
	}
	return m.states.Add(name, save, load, state.Options(o))
}

// Group is the managed process group: ranks and sizes are the participants',
// and what goes wrong is reported to the Manager instead of returned.
func (m *Manager) Group() *pg.Group { return m.group }

// ReportError discards the step under way, on all replicas: they are told by
// the ballot. It says nothing about the group, and the quorum stands: go on with
// the step's collectives, which the others wait for, and with ShouldCommit.
func (m *Manager) ReportError(err error) {
	if err == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reportLocked(err)
}

// Errored is the first error of the step under way, or nil. An error that came
// after its step had ended marks nothing.
func (m *Manager) Errored() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.attempt.err
}

// Step is the number of committed updates.
func (m *Manager) Step() int64 { return m.Position().Step }

// Position is the step and the quorum that committed it.
func (m *Manager) Position() quorum.Position {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.rank.Position()
}

// BatchesCommitted sums the participants of all committed steps.
func (m *Manager) BatchesCommitted() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.rank.Batches()
}

// NumParticipants is the divisor of the newest quorum; 0 before the first. While
// the next one is on its way it is still that of the last, which is for people and
// dashboards: data are shared out by WaitParticipants.
func (m *Manager) NumParticipants() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.rank.Assignment().Divisor
}

// ParticipantRank is this replica's index among the participants of the newest
// quorum, or -1; see NumParticipants.
func (m *Manager) ParticipantRank() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.rank.Quorum() == nil {
		return -1
	}
	return m.mu.rank.Assignment().ParticipantRank
}

// IsParticipating says whether this replica's tensors count in the newest quorum;
// see NumParticipants.
func (m *Manager) IsParticipating() bool { return m.ParticipantRank() >= 0 }

// IsHealing says whether a state is being fetched, or waits to be loaded.
func (m *Manager) IsHealing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.heals.current != nil || m.mu.ahead.copying != nil
}

// HoldsState says whether the registered tensors are the state of Position between two calls.
// With Config.HealInPlace they are not, and not to be saved, from the first StartQuorum until a
// state is loaded; otherwise unless a load callback has failed.
func (m *Manager) HoldsState() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.mixedLocked()
}

// QuorumID is that of the newest quorum; 0 before the first.
func (m *Manager) QuorumID() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.rank.QuorumID()
}

// ReplicaID is this incarnation's full id; empty in a rank above 0 that has not
// found its replica yet.
func (m *Manager) ReplicaID() string {
	if id := m.logID.id.Load(); id != nil {
		return *id
	}
	return ""
}

// Address is the URL of the replica's manager server, and StoreAddress the
// "host:port" of its store, as peers dial them; both are empty in ranks above 0.
func (m *Manager) Address() string {
	if m.replica == nil {
		return ""
	}
	return m.replica.Address()
}

// StoreAddress is "host:port" of the replica's store; see Address.
func (m *Manager) StoreAddress() string {
	if m.replica == nil {
		return ""
	}
	return m.replica.StoreAddress()
}

// Timeouts are all waits in force, as derived from the two that were given.
func (m *Manager) Timeouts() Timeouts { return m.timeouts }

// Stats returns the counts so far.
func (m *Manager) Stats() Stats {
	var r replica.Stats
	if m.replica != nil {
		r = m.replica.Stats()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.mu.stats
	s.Joins, s.Asks, s.Unanswered, s.Reconnects = r.Joins, r.Asks, r.Unanswered, r.Reconnects
	s.HealBytes = m.healBytes.Load()
	return s
}

// await waits until done, called with the lock held whenever the state has changed,
// returns true; until training has ended, whose error it returns; until ctx ends; or
// for limit (0: no limit), see monitor.ErrTimeout. what names what is waited for.
func (m *Manager) await(ctx context.Context, what string, limit time.Duration, done func() bool) error {
	var final error
	err := m.mu.Await(ctx, limit, func() bool {
		final = m.mu.final
		return final != nil || done()
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return final
}

// setFinal ends training with err; the first one counts.
func (m *Manager) setFinal(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.final == nil {
		m.mu.final = err
		m.mu.Broadcast()
	}
}

// logID adds the replica id to every line once it is known: a rank above 0
// learns it while others log already.
type logID struct {
	id atomic.Pointer[string]
}

func (l *logID) set(id quorum.ReplicaID) { l.id.Store(new(string(id))) }

// Run implements zerolog.Hook.
func (l *logID) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	if id := l.id.Load(); id != nil {
		e.Str(logkey.ReplicaID, *id)
	}
}
