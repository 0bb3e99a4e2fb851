package pg

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/logkey"
)

// TraceConfig is how a Trace records and where it dumps.
type TraceConfig struct {
	// Group is the name of the group in dumps; "" means "default".
	Group string
	// Entries is how many ops are remembered; 0 means DefaultTraceEntries.
	Entries int
	// Dump is called with what is remembered when the group breaks, once per
	// epoch, on a goroutine of Trace's. Nil: dumps only when asked. See
	// TraceFiles.
	Dump func(TraceDump) error
	// Log is told when a dump was written or could not be.
	Log zerolog.Logger
}

// DefaultTraceEntries is how many ops a Trace remembers; an entry takes about
// 250 bytes.
const DefaultTraceEntries = 2048

// MaxTraceEntries bounds TraceConfig.Entries.
const MaxTraceEntries = 1 << 20

// Trace is a flight recorder: it remembers the last ops, when each was
// scheduled, started and done, and with what error. When the group breaks (an
// op fails, Abort is called, or a backend that is Watched says so) it dumps
// what it remembers, as it was at that moment. Package pg/trace reads the dumps
// of several ranks and says which rank is missing where.
//
// Submit allocates nothing. A collective counts as started when the one before
// it is done, for collectives run one after the other; a send or receive starts
// at once. The ops of a batch are recorded one by one, and end with it.
type Trace struct {
	*Layer

	config TraceConfig
	relays *Relays[uint64]
	origin time.Time
	wg     sync.WaitGroup // dumps, and the goroutine that watches the epoch

	mu struct {
		sync.Mutex

		ring   traceRing
		dumped bool          // this epoch was
		stop   chan struct{} // ends watching
		closed bool
	}
}

// NewTrace puts Trace around b, which it owns from now on.
func NewTrace(b Backend, c TraceConfig) *Trace {
	if c.Entries <= 0 {
		c.Entries = DefaultTraceEntries
	}
	if c.Group == "" {
		c.Group = "default"
	}
	t := &Trace{Layer: NewLayer(b), config: c, origin: time.Now()}
	t.relays = NewRelays(t.settle)
	t.mu.ring.records = make([]traceRecord, min(c.Entries, MaxTraceEntries))
	return t
}

// Redecorate puts around a subgroup's backend a Trace of its own, whose group
// is named after this one: "default/0".
func (t *Trace) Redecorate(inner Backend, _ []int) Backend { return NewTrace(inner, t.config) }

// Configure configures the backend and begins to count collectives anew.
func (t *Trace) Configure(ctx context.Context, c Config) error {
	t.unwatch()
	if err := t.track.configure(ctx, t.backend, c); err != nil {
		return err
	}
	broken := BrokenOf(t.backend, c.Epoch())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.ring.begin(c.Epoch())
	t.mu.dumped = false
	if broken == nil || t.config.Dump == nil || t.mu.closed {
		return nil
	}
	stop := make(chan struct{})
	t.mu.stop = stop
	t.wg.Go(func() {
		select {
		case <-broken:
			select {
			case <-stop: // it was ended, as a Configure does
			default:
				t.broke(c.Epoch(), t.backend.Err())
			}
		case <-stop:
		}
	})
	return nil
}

// unwatch dumps if the group is broken, and ends watching: that a Configure ends
// the epoch is nothing to dump for.
func (t *Trace) unwatch() {
	t.mu.Lock()
	epoch := t.mu.ring.epoch
	if t.mu.stop != nil {
		close(t.mu.stop)
		t.mu.stop = nil
	}
	t.mu.Unlock()
	if err := t.backend.Err(); err != nil {
		t.broke(epoch, err)
	}
}

// Submit starts op and records it.
func (t *Trace) Submit(op *Op) *Work {
	r := t.relays.Begin(op)
	work := r.Work()
	now := time.Since(t.origin)
	t.mu.Lock()
	r.State = t.mu.ring.submitted(op, now)
	t.mu.Unlock()
	r.Submit(t.backend, *op)
	return work
}

// settle records how an op ended.
func (t *Trace) settle(r *Relay[uint64], err error) error {
	now := time.Since(t.origin)
	t.mu.Lock()
	t.mu.ring.ended(r.State, r.Op(), now, err)
	epoch := t.mu.ring.epoch
	t.mu.Unlock()
	if err != nil && breaks(err) {
		t.broke(epoch, err)
	}
	return err
}

// breaks tells whether an op that failed with err has broken its group, or
// found it broken.
func breaks(err error) bool {
	own := errors.Is(err, ErrInvalidOp) || errors.Is(err, ErrUnsupported) ||
		errors.Is(err, ErrUnconfigured) || errors.Is(err, ErrNotParticipating)
	return (!own || errors.Is(err, ErrAborted)) && !errors.Is(err, ErrClosed)
}

// Abort dumps, and aborts the backend.
func (t *Trace) Abort(e Epoch, cause error) {
	if t.backend.Err() == nil {
		t.broke(e, cause)
	}
	t.backend.Abort(e, cause)
}

// Close closes the backend, and waits for dumps that are being written.
func (t *Trace) Close() error {
	t.mu.Lock()
	t.mu.closed = true
	if t.mu.stop != nil {
		close(t.mu.stop)
		t.mu.stop = nil
	}
	t.mu.Unlock()
	err := t.backend.Close()
	t.wg.Wait()
	return err
}

// broke dumps epoch e, once, if it is the current one.
func (t *Trace) broke(e Epoch, cause error) {
	if t.config.Dump == nil {
		return
	}
	config, configured := t.Config()
	t.mu.Lock()
	if t.mu.dumped || t.mu.closed || !configured || t.mu.ring.epoch != e || config.Epoch() != e {
		t.mu.Unlock()
		return
	}
	t.mu.dumped = true
	d := t.dumpLocked(config, cause)
	t.wg.Go(func() {
		d.Attachments = attachmentsOf(t.backend)
		if err := t.config.Dump(d); err != nil {
			t.config.Log.Warn().Err(err).Str(keyGroup, d.Group).Msg("trace lost")
			return
		}
		t.config.Log.Info().Str(keyGroup, d.Group).Int64(logkey.QuorumID, d.QuorumID).Msg("trace dumped")
	})
	t.mu.Unlock()
}

// Dump is what Trace remembers now.
func (t *Trace) Dump() TraceDump {
	config, _ := t.Config()
	err := t.backend.Err()
	attachments := attachmentsOf(t.backend)
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dumpLocked(config, err)
	d.Attachments = attachments
	return d
}

func (t *Trace) dumpLocked(c Config, cause error) TraceDump {
	d := TraceDump{
		Version: TraceVersion, Group: pathOf(t.config.Group, c), Backend: t.backend.Name(), At: time.Now().UTC(),
		ReplicaIDs: c.ReplicaIDs, Rank: c.Rank, GroupRank: c.GroupRank,
		Cluster: c.Cluster, QuorumID: c.QuorumID, Round: c.Round,
	}
	if cause != nil {
		d.Cause = boundedTrace(cause.Error())
	}
	d.Forgotten = t.mu.ring.forgotten()
	d.Entries = t.mu.ring.entries(t.origin)
	return d
}
