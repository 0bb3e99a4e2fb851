package debug

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/observe"
	"github.com/skerry-ft/skerry/pg/trace"
)

// Level says how much a process looks at its own collectives, as torch's
// does.
type Level uint8

// The debug levels.
const (
	// Off looks at nothing.
	Off Level = iota
	// Info logs when a group is configured and closed, with statistics of
	// what it did.
	Info
	// Detail also puts Check on every group: what the ranks call is
	// compared, and who does not come is named, before every collective. Set
	// it on all ranks.
	Detail
	levelCount
)

var levelNames = [levelCount]string{Off: "OFF", Info: "INFO", Detail: "DETAIL"}

// String is torch's name: "OFF", "INFO", "DETAIL".
func (l Level) String() string {
	if l >= levelCount {
		return fmt.Sprintf("debug-level(%d)", uint8(l))
	}
	return levelNames[l]
}

// ParseLevel reads a level without regard to case; "" is Off.
func ParseLevel(s string) (Level, error) {
	if s == "" {
		return Off, nil
	}
	if i := slices.Index(levelNames[:], strings.ToUpper(s)); i >= 0 {
		return Level(i), nil
	}
	return Off, fmt.Errorf("pg: debug level %q, want one of %s", s, strings.Join(levelNames[:], ", "))
}

// Config is what a Debugger does with the groups of a world.
type Config struct {
	// Level is in force for groups wrapped from now on; see SetLevel.
	Level Level
	// Trace, if not nil, puts a trace.Recorder on every group, whatever the level.
	// Its Group is the group's name.
	Trace *trace.Config
	// Observer, if not nil, makes an observe.Observer for every group, by its name; it
	// may return nil.
	Observer func(group string) observe.Observer
	// Log gets what a level other than Off has to say. The zero Logger means
	// JSON lines on standard error, so that the variables of FromEnv work in a
	// program that gives no logger; zerolog.Nop() means nowhere.
	Log zerolog.Logger
}

// logOrStderr is l, or a logger to standard error if none was given: the zero Logger
// would say nothing.
func logOrStderr(l zerolog.Logger) zerolog.Logger {
	if reflect.ValueOf(l).IsZero() {
		return logline.JSON(os.Stderr)
	}
	return l
}

// Debugger puts what helps to debug on the groups of one world: each of them
// passes Wrap when it is made, and its subgroups get the same. Safe for
// concurrent use.
type Debugger struct {
	config Config
	level  atomic.Uint32 // a Level
}

// New makes a Debugger.
func New(c Config) *Debugger {
	d := &Debugger{config: c}
	d.SetLevel(c.Level)
	return d
}

// Level is the level in force.
func (d *Debugger) Level() Level { return Level(d.level.Load()) }

// SetLevel sets the level of the groups that pass Wrap from now on. A subgroup
// has what its parent has: ranks that compare calls must do so together.
func (d *Debugger) SetLevel(l Level) { d.level.Store(uint32(l)) }

// SetLevelFromEnv sets the level that the environment says; see
// Config.FromEnv.
func (d *Debugger) SetLevelFromEnv() error {
	l, err := LevelFromEnv()
	if err != nil {
		return err
	}
	d.SetLevel(l)
	return nil
}

// Wrap puts around b, the backend of the group of that name, what the level and
// the config say. From inside to outside: Check, observe.Decorator, trace.Recorder; so the trace
// shows what the user called. With nothing to add it returns b itself. Managed
// belongs around the result. A nil Debugger adds nothing.
func (d *Debugger) Wrap(group string, b pg.Backend) pg.Backend {
	if d == nil {
		return b
	}
	level := d.Level()
	if level >= Detail {
		b = NewCheck(b)
	}
	if d.config.Observer != nil {
		if o := d.config.Observer(group); o != nil {
			b = observe.New(b, o)
		}
	}
	if level >= Info {
		b = newNarrator(group, level, b, logOrStderr(d.config.Log))
	}
	if d.config.Trace != nil {
		c := *d.config.Trace
		c.Group = group
		b = trace.NewRecorder(b, c)
	}
	return b
}

// narrator logs the life of a group.
type narrator struct {
	*observe.Decorator

	group string
	level Level
	log   zerolog.Logger
	stats *opStats
}

func newNarrator(group string, level Level, b pg.Backend, log zerolog.Logger) *narrator {
	stats := &opStats{}
	stats.mu.kinds = make(map[pg.Kind]kindStats)
	return &narrator{Decorator: observe.New(b, stats), group: group, level: level, log: log, stats: stats}
}

// Redecorate puts around a subgroup's backend a narrator of its own.
func (n *narrator) Redecorate(inner pg.Backend, _ []int) pg.Backend {
	return newNarrator(n.group, n.level, inner, n.log)
}

// Configure configures the backend and tells of it.
func (n *narrator) Configure(ctx context.Context, c pg.Config) error {
	n.tellStats("group reconfigured")
	began := time.Now()
	err := n.Decorator.Configure(ctx, c)
	e, event := n.log.Info(), "group configured"
	if err != nil {
		e, event = n.log.Warn().Err(err), "group not configured"
	}
	e.Str(logkey.Group, c.GroupPath(n.group)).Str("backend", n.Name()).Str("debug", n.level.String()).
		Int("rank", c.Rank).Int(logkey.WorldSize, c.WorldSize()).Strs(logkey.Members, c.ReplicaIDs).
		Int64(logkey.QuorumID, c.QuorumID).Int(logkey.GroupRank, c.GroupRank).
		Str("store", c.StoreAddress).Dur("timeout_ms", cmp.Or(c.Timeout, pg.DefaultTimeout)).
		Dur(logkey.ElapsedMs, time.Since(began)).Msg(event)
	return err
}

// Close closes the backend and tells what it did.
func (n *narrator) Close() error {
	err := n.Decorator.Close()
	n.tellStats("group closed")
	return err
}

func (n *narrator) tellStats(event string) {
	c, _ := n.Config()
	stats := n.stats.take()
	for _, kind := range slices.Sorted(maps.Keys(stats)) {
		s := stats[kind]
		n.log.Info().Str(logkey.Group, c.GroupPath(n.group)).Str("kind", kind.String()).Int("ops", s.ops).
			Int("errors", s.errors).Int("in_bytes", s.inBytes).Int("out_bytes", s.outBytes).
			Dur("mean_ms", s.total/time.Duration(s.ops)).Dur("max_ms", s.longest).Msg(event)
	}
}

// opStats sums up ops by kind.
type opStats struct {
	mu struct {
		sync.Mutex

		kinds map[pg.Kind]kindStats
	}
}

type kindStats struct {
	ops, errors, inBytes, outBytes int
	total, longest                 time.Duration
}

// Begin implements observe.Observer.
func (s *opStats) Begin(observe.Info) {}

// End implements observe.Observer.
func (s *opStats) End(i observe.Info, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.mu.kinds[i.Kind]
	k.ops++
	if err != nil {
		k.errors++
	}
	k.inBytes += i.InBytes
	k.outBytes += i.OutBytes
	k.total += took
	k.longest = max(k.longest, took)
	s.mu.kinds[i.Kind] = k
}

// take returns what was summed up, and starts anew.
func (s *opStats) take() map[pg.Kind]kindStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds := s.mu.kinds
	s.mu.kinds = make(map[pg.Kind]kindStats)
	return kinds
}
