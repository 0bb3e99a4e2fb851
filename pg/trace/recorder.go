package trace

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/pg"
)

// Config is how a Recorder records and where it dumps.
type Config struct {
	// Group is the name of the group in dumps; "" means "default".
	Group string
	// Entries is how many ops are remembered; 0 means DefaultEntries.
	Entries int
	// Dump is called with what is remembered when the group breaks, once per
	// epoch, on a goroutine of the Recorder's. Nil: dumps only when asked. See
	// Files.
	Dump func(Dump) error
	// Log is told when a dump was written or could not be.
	Log zerolog.Logger
}

// DefaultEntries is how many ops a Recorder remembers; an entry takes about
// 250 bytes.
const DefaultEntries = 2048

// MaxEntries bounds Config.Entries.
const MaxEntries = 1 << 20

// Recorder is a flight recorder: it remembers the last ops, when each was
// scheduled, started and done, and with what error. When the group breaks (an
// op fails, Abort is called, or a backend that is pg.Watched says so) it dumps
// what it remembers, as it was at that moment. Analyse says what the dumps of several
// ranks mean together.
//
// Submit allocates nothing. A collective counts as started when the one before
// it is done, for collectives run one after the other; a send or receive starts
// at once. The ops of a batch are recorded one by one, and end with it. Safe for
// concurrent use.
type Recorder struct {
	*pg.Layer

	config Config
	relays *pg.Relays[uint64]
	origin time.Time
	wg     sync.WaitGroup // dumps, and the goroutine that watches the epoch

	mu struct {
		sync.Mutex

		ring   ring
		dumped bool          // this epoch was
		stop   chan struct{} // ends watching
		closed bool
	}
}

// NewRecorder puts a Recorder around b, which it owns from now on.
func NewRecorder(b pg.Backend, c Config) *Recorder {
	if c.Entries <= 0 {
		c.Entries = DefaultEntries
	}
	if c.Group == "" {
		c.Group = "default"
	}
	t := &Recorder{Layer: pg.NewLayer(b), config: c, origin: time.Now()}
	t.relays = pg.NewRelays(t.settle)
	t.mu.ring.records = make([]record, min(c.Entries, MaxEntries))
	return t
}

// Redecorate puts around a subgroup's backend a Recorder of its own, whose group
// is named after this one: "default/0".
func (t *Recorder) Redecorate(inner pg.Backend, _ []int) pg.Backend {
	return NewRecorder(inner, t.config)
}

// Configure configures the backend and begins to count collectives anew.
func (t *Recorder) Configure(ctx context.Context, c pg.Config) error {
	t.unwatch()
	if err := t.Layer.Configure(ctx, c); err != nil {
		return err
	}
	broken := pg.BrokenOf(t.Unwrap(), c.Epoch())
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
				t.broke(c.Epoch(), t.Unwrap().Err())
			}
		case <-stop:
		}
	})
	return nil
}

// unwatch dumps if the group is broken, and ends watching: that a Configure ends
// the epoch is nothing to dump for.
func (t *Recorder) unwatch() {
	t.mu.Lock()
	epoch := t.mu.ring.epoch
	if t.mu.stop != nil {
		close(t.mu.stop)
		t.mu.stop = nil
	}
	t.mu.Unlock()
	if err := t.Unwrap().Err(); err != nil {
		t.broke(epoch, err)
	}
}

// Submit starts op and records it.
func (t *Recorder) Submit(op *pg.Op) *pg.Work {
	r := t.relays.Begin(op)
	work := r.Work()
	now := time.Since(t.origin)
	t.mu.Lock()
	r.State = t.mu.ring.submitted(op, now)
	t.mu.Unlock()
	r.Submit(t.Unwrap(), *op)
	return work
}

// settle records how an op ended.
func (t *Recorder) settle(r *pg.Relay[uint64], err error) error {
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
	own := errors.Is(err, pg.ErrInvalidOp) || errors.Is(err, pg.ErrUnsupported) ||
		errors.Is(err, pg.ErrUnconfigured) || errors.Is(err, pg.ErrNotParticipating)
	return (!own || errors.Is(err, pg.ErrAborted)) && !errors.Is(err, pg.ErrClosed)
}

// Abort dumps, and aborts the backend.
func (t *Recorder) Abort(e pg.Epoch, cause error) {
	if t.Unwrap().Err() == nil {
		t.broke(e, cause)
	}
	t.Unwrap().Abort(e, cause)
}

// Close closes the backend, and waits for dumps that are being written.
func (t *Recorder) Close() error {
	t.mu.Lock()
	t.mu.closed = true
	if t.mu.stop != nil {
		close(t.mu.stop)
		t.mu.stop = nil
	}
	t.mu.Unlock()
	err := t.Unwrap().Close()
	t.wg.Wait()
	return err
}

// broke dumps epoch e, once, if it is the current one.
func (t *Recorder) broke(e pg.Epoch, cause error) {
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
		d.Attachments = attachmentsOf(t.Unwrap())
		if err := t.config.Dump(d); err != nil {
			t.config.Log.Warn().Err(err).Str(logkey.Group, d.Group).Msg("trace lost")
			return
		}
		t.config.Log.Info().Str(logkey.Group, d.Group).Int64(logkey.QuorumID, d.QuorumID).Msg("trace dumped")
	})
	t.mu.Unlock()
}

// Dump is what the Recorder remembers now.
func (t *Recorder) Dump() Dump {
	config, _ := t.Config()
	err := t.Unwrap().Err()
	attachments := attachmentsOf(t.Unwrap())
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dumpLocked(config, err)
	d.Attachments = attachments
	return d
}

func (t *Recorder) dumpLocked(c pg.Config, cause error) Dump {
	d := Dump{
		Version: Version, Group: c.GroupPath(t.config.Group), Backend: t.Unwrap().Name(), At: time.Now().UTC(),
		ReplicaIDs: c.ReplicaIDs, Rank: c.Rank, GroupRank: c.GroupRank,
		Cluster: c.Cluster, QuorumID: c.QuorumID, Round: c.Round,
	}
	if cause != nil {
		d.Cause = bounded(cause.Error())
	}
	d.Forgotten = t.mu.ring.forgotten()
	d.Entries = t.mu.ring.entries(t.origin)
	return d
}
