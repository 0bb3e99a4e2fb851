package manager

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/quorum"
)

// Config tells a Manager who it is and whom it works with. Zero values mean
// the defaults that the fields name.
type Config struct {
	// Job is the training run whose replicas meet; "" means "default".
	Job string
	// ReplicaID is this replica group's name. New appends ":" and a fresh UUID,
	// which makes the incarnation; with several ranks, rank 0's is published in
	// GroupStore. Required in group rank 0.
	ReplicaID string
	// Lighthouse has the addresses of lighthouse servers, "host:port" or URLs;
	// one is enough to learn the others. Required in group rank 0, unused in
	// all others.
	Lighthouse []string

	// GroupRank is this process's index in its replica group, GroupWorldSize
	// how many there are; 0 means 1.
	GroupRank, GroupWorldSize int
	// GroupStore is "host:port[/prefix]" of the replica group's own store, where
	// rank 0 publishes its manager's address and the replica id. Required with
	// GroupWorldSize > 1. Use a new prefix for every start of the group.
	GroupStore string
	// PlainGroupStore: GroupStore speaks no TLS, though Guard encrypts the data plane and
	// the store: as a launcher's that is PyTorch's. What it holds is no secret, and
	// rank 0 must show its certificate all the same.
	PlainGroupStore bool

	// Listen is "host:port" of the manager server in group rank 0; store and
	// heal listeners bind the same host. "" means a free port where peers are: on
	// loopback if the lighthouse is there, else on the address from which packets to
	// the lighthouse leave this host. Beyond loopback Guard must guard, or say Open;
	// New refuses anything else, and a Listen on loopback if the lighthouse is not.
	// Ranks above 0 take GroupStore for the lighthouse, if they know none.
	Listen string
	// Advertise is the host that peers dial; "" means Listen's host, which must
	// then not be a wildcard.
	Advertise string

	// Guard has the certificate and the token of this replica; the same in all
	// its ranks. Zero: a token of each quorum guards store, data plane and heals,
	// and nothing guards the manager server, which is fine on loopback. With Open it
	// may listen beyond loopback like that.
	Guard Guard

	// MinReplicas: a step with fewer participants is discarded. 0 means 1.
	MinReplicas int
	// FixedWorldSize: 0 means that all replicas take part and the divisor
	// follows. Above 0, at most that many take part and all others are spares.
	FixedWorldSize int
	// Sync makes StartQuorum wait for the quorum, the group and the heal, so
	// that a healing replica takes part in that very step. The first quorum of a
	// process is always so.
	Sync bool
	// NoInitSync leaves every replica the state it starts with; by default all
	// take one replica's at step 0.
	NoInitSync bool
	// HealInPlace has a newcomer copy the others' state over its own tensors, before it
	// joins, and keep nothing of what was there: it takes no memory for that, which is as
	// much as the state's otherwise. If all that it could heal from die before it has a
	// whole state, it has none, and StartQuorum returns ErrStateLost, where it would have
	// gone back to the state that it began with; until then HoldsState is false. A heal for which StartQuorum waits
	// goes over the tensors as well, and a newcomer's StartQuorum waits for its first: it is whole when it returns.
	HealInPlace bool
	// EveryStep asks the lighthouse after every commit, as torchft does.
	EveryStep bool
	// Start says which state the registered tensors hold when Run begins. Zero: a
	// fresh one, step 0. One that was read from a file is as it was saved: see Start.
	Start Start
	// TotalSteps is how many steps the run has, so that pages can say when it will be done.
	// Nothing else reads it. 0: not known. Of the replicas' the highest is shown.
	TotalSteps int64
	// MaxRetries ends training with ErrMaxRetries after so many discarded steps
	// in a row; 0 means never.
	MaxRetries int

	// ParityEvery: in every so many steps, a power of two, each rank sums up 8 MiB of its registered
	// state, which takes turns, and the ballots compare: a replica whose bytes are not
	// those of the others is named and heals. 0 means 8: about a thousandth of a step,
	// and whatever differs is found within a step for each MiB of state, and 8 at
	// least. Negative: never; then a flipped bit lives on, and heals spread it. One
	// that has another value than the others is compared in the steps that both compare.
	ParityEvery int
	// ParityWhole sums up all of the state each time: with ParityEvery 1 what differs is
	// found in the very step that would have used it, at the price of reading the whole
	// state beside every forward pass. It is compared with those that have it set, too.
	ParityWhole bool
	// OnDiffering is what becomes of replicas whose bytes are not those of the others, and
	// is best the same in all. The default heals them.
	OnDiffering Differing

	// StepTimeout bounds everything that a step waits for, HealTimeout the
	// transfer of a state. All other timeouts derive from these two: see
	// Timeouts. 0 means 60 s, and 10 min or StepTimeout, if that is more, which is HealTimeout's
	// least value. Too low: a slow peer looks broken, and
	// steps are discarded. Too high: a hang that no message tells of lasts so long.
	// A trainer that calls nothing for StepTimeout, in a forward pass or an evaluation
	// that is longer, is away when a quorum falls then: the others go on without it,
	// and it joins with its next call.
	StepTimeout time.Duration
	HealTimeout time.Duration

	// Backend is the raw process group, for example tcp.New's. The Manager owns
	// it: it wraps it in pg.Managed, configures and closes it. Required.
	Backend pg.Backend
	// Debug puts around Backend what helps to debug: comparing what the replicas
	// call, a flight recorder, metrics of operations. It must be the same in all
	// replicas. nil: nothing.
	Debug *debug.Debugger
	// Transport moves states between replicas; nil means HTTP on Listen's host.
	// The Manager owns it and closes it.
	Transport checkpoint.Transport
	// HealBackend makes the backends of process groups of two by which the bytes of heals
	// come, one for each donor and target, for as long as they are at it: tcp.New's bring
	// them through shared memory on one host. nil, or where the other side has none: they
	// come by HTTP. With a Transport or a Network of the caller's it is refused.
	HealBackend func() (pg.Backend, error)
	// Network makes the other listeners and connections; nil means TCP.
	Network Network

	// OnEvent is told what happens, one call at a time, from goroutines of the
	// Manager; it must not block and must not call the Manager. nil: events are dropped.
	OnEvent func(Event)
	// OnKill is called when an operator kills this replica through the
	// lighthouse or the skerry tool; it should end the process. nil: refused.
	OnKill func(reason string)

	Log zerolog.Logger
	// Registry takes the metrics, too, which group rank 0 serves on its own port in any
	// case (GET /metrics of Manager.Address). Replicas of one process may share it: their
	// names are a label. nil: there they are, and those of ranks above 0 nowhere.
	Registry prometheus.Registerer
}

// Start is what a durable checkpoint says besides the tensors. Save both between a
// ShouldCommit and the next StartQuorum, when the optimizer has stepped:
//
//	Start{Position: m.Position(), Batches: m.BatchesCommitted()}
//
// When all replicas were down, and each comes back with a file of its own, or with
// none, the newest position wins, and the others heal from a replica that has it.
// Without Start all would be at step 0, and the replica whose id sorts first would
// give its state to all, be it the oldest. A replica that comes back while others
// train heals from them, unless its file is newer than what they have.
type Start struct {
	// Position is that of the tensors. A file that knows its step alone has a position
	// with QuorumID 0 and no Cluster; it is older than the same step of any quorum, and
	// two such files of one step must hold the same bytes.
	Position quorum.Position
	// Batches is what BatchesCommitted begins with.
	Batches int64
}

// maxStart leaves room for the steps that follow.
const maxStart = wire.MaxNumber / 2

// validate returns all problems, each as "Field = value, want bound".
func (s Start) validate() error {
	l, p := problems.List{Prefix: "Start."}, s.Position
	problems.Within(&l, "Position.Step", p.Step, 0, maxStart)
	_, err := wire.PositionFromProto(wire.PositionToProto(quorum.Position{Cluster: p.Cluster, QuorumID: p.QuorumID}))
	l.About("Position", err)
	l.Want(p.Step != 0 || p.QuorumID == 0, "Position.QuorumID", p.QuorumID, "0 with Step 0: no quorum has committed it")
	problems.Within(&l, "Batches", s.Batches, 0, wire.MaxNumber)
	return l.Err()
}

// Differing is a policy for states that differ.
type Differing int

// The policies. In each of them the step is discarded by all.
const (
	// HealDiffering: a replica that is named heals from the others and trains on; again and
	// again within half an hour, and it is left out for ever longer.
	HealDiffering Differing = iota
	// EndDiffering: its StartQuorum or ShouldCommit returns ErrDiffered, and the others
	// train on.
	EndDiffering
	// StopAll: every replica that is told returns ErrDiffered.
	StopAll
)

// The defaults of Config.
const (
	DefaultJob         = "default"
	DefaultListen      = "127.0.0.1:0"
	DefaultStepTimeout = 60 * time.Second
	DefaultHealTimeout = 10 * time.Minute
)
