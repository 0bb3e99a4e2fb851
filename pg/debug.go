package pg

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/logkey"
)

// DebugLevel says how much a process looks at its own collectives, as torch's
// does.
type DebugLevel uint8

// The debug levels.
const (
	// DebugOff looks at nothing.
	DebugOff DebugLevel = iota
	// DebugInfo logs when a group is configured and closed, with statistics of
	// what it did.
	DebugInfo
	// DebugDetail also puts Check on every group: what the ranks call is
	// compared, and who does not come is named, before every collective. Set
	// it on all ranks.
	DebugDetail
	debugLevelCount
)

var debugLevelNames = [debugLevelCount]string{DebugOff: "OFF", DebugInfo: "INFO", DebugDetail: "DETAIL"}

// String is torch's name: "OFF", "INFO", "DETAIL".
func (l DebugLevel) String() string {
	if l >= debugLevelCount {
		return fmt.Sprintf("debug-level(%d)", uint8(l))
	}
	return debugLevelNames[l]
}

// ParseDebugLevel reads a level without regard to case; "" is DebugOff.
func ParseDebugLevel(s string) (DebugLevel, error) {
	if s == "" {
		return DebugOff, nil
	}
	if i := slices.Index(debugLevelNames[:], strings.ToUpper(s)); i >= 0 {
		return DebugLevel(i), nil
	}
	return DebugOff, fmt.Errorf("pg: debug level %q, want one of %s", s, strings.Join(debugLevelNames[:], ", "))
}

// DebugConfig is what a Debugger does with the groups of a world.
type DebugConfig struct {
	// Level is in force for groups wrapped from now on; see SetLevel.
	Level DebugLevel
	// Trace, if not nil, puts a Trace on every group, whatever the level.
	// Its Group is the group's name.
	Trace *TraceConfig
	// Observer, if not nil, makes an Observer for every group, by its name; it
	// may return nil.
	Observer func(group string) Observer
	// Log gets what a level other than DebugOff has to say. The zero Logger means
	// JSON lines on standard error, so that the variables of FromEnv work in a
	// program that gives no logger; zerolog.Nop() means nowhere.
	Log zerolog.Logger
}

// logOrStderr is l, or a logger to standard error if none was given: the zero Logger
// would say nothing.
func logOrStderr(l zerolog.Logger) zerolog.Logger {
	if reflect.ValueOf(l).IsZero() {
		return zerolog.New(os.Stderr).With().Timestamp().Logger()
	}
	return l
}

// Debugger puts what helps to debug on the groups of one world: each of them
// passes Wrap when it is made, and its subgroups get the same. Safe for
// concurrent use.
type Debugger struct {
	config DebugConfig

	mu struct {
		sync.Mutex

		level DebugLevel
	}
}

// NewDebugger makes a Debugger.
func NewDebugger(c DebugConfig) *Debugger {
	d := &Debugger{config: c}
	d.mu.level = c.Level
	return d
}

// Level is the level in force.
func (d *Debugger) Level() DebugLevel {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.level
}

// SetLevel sets the level of the groups that pass Wrap from now on. A subgroup
// has what its parent has: ranks that compare calls must do so together.
func (d *Debugger) SetLevel(l DebugLevel) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.level = l
}

// SetLevelFromEnv sets the level that the environment says; see
// DebugConfig.FromEnv.
func (d *Debugger) SetLevelFromEnv() error {
	l, err := DebugLevelFromEnv()
	if err != nil {
		return err
	}
	d.SetLevel(l)
	return nil
}

// Wrap puts around b, the backend of the group of that name, what the level and
// the config say. From inside to outside: Check, Observe, Trace; so the trace
// shows what the user called. With nothing to add it returns b itself. Managed
// belongs around the result. A nil Debugger adds nothing.
func (d *Debugger) Wrap(group string, b Backend) Backend {
	if d == nil {
		return b
	}
	level := d.Level()
	if level >= DebugDetail {
		b = NewCheck(b)
	}
	if d.config.Observer != nil {
		if o := d.config.Observer(group); o != nil {
			b = NewObserve(b, o)
		}
	}
	if level >= DebugInfo {
		b = newNarrator(group, level, b, logOrStderr(d.config.Log))
	}
	if d.config.Trace != nil {
		c := *d.config.Trace
		c.Group = group
		b = NewTrace(b, c)
	}
	return b
}

// keyGroup is the key of a group's name in log lines.
const keyGroup = "group"

// narrator logs the life of a group.
type narrator struct {
	*Observe

	group string
	level DebugLevel
	log   zerolog.Logger
	stats *opStats
}

func newNarrator(group string, level DebugLevel, b Backend, log zerolog.Logger) *narrator {
	stats := &opStats{}
	return &narrator{Observe: NewObserve(b, stats), group: group, level: level, log: log, stats: stats}
}

// Redecorate puts around a subgroup's backend a narrator of its own.
func (n *narrator) Redecorate(inner Backend, _ []int) Backend {
	return newNarrator(n.group, n.level, inner, n.log)
}

// pathOf is the name of the group that c configures, if name is that of the
// group that it is a subgroup of, or its own: NewGroup says so in the address.
func pathOf(name string, c Config) string {
	_, below, ok := strings.Cut(c.StoreAddress, "/groups/")
	if !ok {
		return name
	}
	return name + "/" + strings.ReplaceAll(below, "/groups/", "/")
}

// Configure configures the backend and tells of it.
func (n *narrator) Configure(ctx context.Context, c Config) error {
	n.tellStats("group reconfigured")
	began := time.Now()
	err := n.Observe.Configure(ctx, c)
	e := n.log.Info()
	if err != nil {
		e = n.log.Warn().Err(err)
	}
	e = e.Str(keyGroup, pathOf(n.group, c)).Str("backend", n.Name()).Str("debug", n.level.String()).
		Int("rank", c.Rank).Int(logkey.WorldSize, c.WorldSize()).Strs(logkey.Members, c.ReplicaIDs).
		Int64(logkey.QuorumID, c.QuorumID).Int(logkey.GroupRank, c.GroupRank).
		Str("store", c.StoreAddress).Dur("timeout_ms", cmp.Or(c.Timeout, DefaultTimeout)).
		Dur(logkey.ElapsedMs, time.Since(began))
	if err != nil {
		e.Msg("group not configured")
		return err
	}
	e.Msg("group configured")
	return nil
}

// Close closes the backend and tells what it did.
func (n *narrator) Close() error {
	err := n.Observe.Close()
	n.tellStats("group closed")
	return err
}

func (n *narrator) tellStats(event string) {
	c, _ := n.Config()
	for kind, s := range n.stats.take() {
		if s.ops == 0 {
			continue
		}
		n.log.Info().Str(keyGroup, pathOf(n.group, c)).Str("kind", Kind(kind).String()).Int("ops", s.ops).
			Int("errors", s.errors).Int("in_bytes", s.inBytes).Int("out_bytes", s.outBytes).
			Dur("mean_ms", s.total/time.Duration(s.ops)).Dur("max_ms", s.longest).Msg(event)
	}
}

// opStats sums up ops by kind.
type opStats struct {
	mu struct {
		sync.Mutex

		kinds [kindCount]kindStats
	}
}

type kindStats struct {
	ops, errors, inBytes, outBytes int
	total, longest                 time.Duration
}

// Begin implements Observer.
func (s *opStats) Begin(OpInfo) {}

// End implements Observer.
func (s *opStats) End(i OpInfo, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &s.mu.kinds[min(i.Kind, kindCount-1)]
	k.ops++
	if err != nil {
		k.errors++
	}
	k.inBytes += i.InBytes
	k.outBytes += i.OutBytes
	k.total += took
	k.longest = max(k.longest, took)
}

// take returns what was summed up, and starts anew.
func (s *opStats) take() [kindCount]kindStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds := s.mu.kinds
	s.mu.kinds = [kindCount]kindStats{}
	return kinds
}
