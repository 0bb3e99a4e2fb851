package pg_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// TestDetailConforms: everything at once changes nothing.
func TestDetailConforms(t *testing.T) {
	d := pg.NewDebugger(pg.DebugConfig{
		Level: pg.DebugDetail, Trace: &pg.TraceConfig{Entries: 32},
		Observer: func(string) pg.Observer { return &tally{} },
	})
	conform(t, func(b pg.Backend) pg.Backend { return d.Wrap("all", b) })
}

// tally counts what an Observer is told.
type tally struct {
	mu struct {
		sync.Mutex

		begun, ended, failed int
		last                 pg.OpInfo
	}
}

func (o *tally) Begin(i pg.OpInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.begun++
	o.mu.last = i
}

// ops is how many have begun and ended.
func (o *tally) ops() (begun, ended, failed int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.begun, o.mu.ended, o.mu.failed
}

// layers names the decorators of b, from outside to inside.
func layers(b pg.Backend) string {
	var names []string
	for {
		switch b.(type) {
		case *pg.Check:
			names = append(names, "check")
		case *pg.Trace:
			names = append(names, "trace")
		case *pg.Observe:
			names = append(names, "observe")
		default:
			if _, ok := b.(pg.Unwrapper); ok {
				names = append(names, "narrator")
			}
		}
		u, ok := b.(pg.Unwrapper)
		if !ok {
			return strings.Join(names, " ")
		}
		b = u.Unwrap()
	}
}

// TestDebuggerWraps: each level adds its own, and the setter holds for the
// groups made after it.
func TestDebuggerWraps(t *testing.T) {
	d := pg.NewDebugger(pg.DebugConfig{})
	if b := pg.NewDummy(); d.Wrap("x", b) != pg.Backend(b) {
		t.Error("OFF wraps")
	}
	d.SetLevel(pg.DebugInfo)
	if got := layers(d.Wrap("x", pg.NewDummy())); got != "narrator" {
		t.Errorf("INFO adds %q", got)
	}
	d.SetLevel(pg.DebugDetail)
	if got := layers(d.Wrap("x", pg.NewDummy())); got != "narrator check" || d.Level() != pg.DebugDetail {
		t.Errorf("DETAIL adds %q", got)
	}
	t.Setenv(pg.EnvTorchDebug, "info")
	if err := d.SetLevelFromEnv(); err != nil || d.Level() != pg.DebugInfo {
		t.Errorf("level %v from the environment: %v", d.Level(), err)
	}
	all := pg.NewDebugger(pg.DebugConfig{
		Level: pg.DebugDetail, Trace: &pg.TraceConfig{}, Observer: func(string) pg.Observer { return &tally{} },
	})
	if got := layers(all.Wrap("x", pg.NewDummy())); got != "trace narrator observe check" {
		t.Errorf("everything adds %q", got)
	}
	var none *pg.Debugger
	if b := pg.NewDummy(); none.Wrap("x", b) != pg.Backend(b) {
		t.Error("no Debugger wraps")
	}
}

// TestDebugReachesSubgroups: what is on a group is on its subgroups, under
// their names.
func TestDebugReachesSubgroups(t *testing.T) {
	var out [2]bytes.Buffer
	rank := 0
	w := decoratedWorld(t, 2, func(b pg.Backend) pg.Backend {
		d := pg.NewDebugger(pg.DebugConfig{
			Level: pg.DebugDetail, Trace: &pg.TraceConfig{}, Log: zerolog.New(&out[rank]),
		})
		rank++
		return d.Wrap("world", b)
	})
	errs := make([]error, 2)
	w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
		sub, err := g.NewGroup(ctx, nil, pg.GroupOptions{Name: "tp"})
		if err != nil {
			return err
		}
		if got := layers(sub.Backend()); got != "trace narrator check" {
			t.Errorf("subgroup has %q", got)
		}
		if got := sub.Backend().(*pg.Trace).Dump().Group; got != "world/tp" {
			t.Errorf("subgroup is traced as %q", got)
		}
		errs[rank] = sub.AllReduce(ctx, tensor.New(tensor.Float32, 1+rank), tensor.Sum)
		return nil
	})
	for rank, err := range errs {
		if !errors.Is(err, pg.ErrMismatch) || !strings.Contains(err.Error(), "rank 1 (b) called") &&
			!strings.Contains(err.Error(), "rank 0 (a) called") {
			t.Errorf("rank %d: %v, want ErrMismatch that names both", rank, err)
		}
	}
	for _, m := range w.Members {
		if err := m.Backend.Close(); err != nil {
			t.Error(err)
		}
	}
	for rank := range out {
		for _, want := range []string{`"group":"world"`, `"group":"world/tp"`, `"debug":"DETAIL"`, "group configured", "group closed"} {
			if !strings.Contains(out[rank].String(), want) {
				t.Errorf("rank %d logged no %s:\n%s", rank, want, &out[rank])
			}
		}
	}
}

func TestDebugConfigFromEnv(t *testing.T) {
	cases := []struct {
		env   map[string]string
		level pg.DebugLevel
		trace int
		bad   string
	}{
		{nil, pg.DebugOff, 0, ""},
		{map[string]string{pg.EnvTorchDebug: "DETAIL"}, pg.DebugDetail, 0, ""},
		{map[string]string{pg.EnvTorchDebug: "DETAIL", pg.EnvDebug: "off"}, pg.DebugOff, 0, ""},
		{map[string]string{pg.EnvDebug: "loud"}, 0, 0, pg.EnvDebug},
		{map[string]string{pg.EnvTorchTrace: "100"}, pg.DebugOff, 100, ""},
		{map[string]string{pg.EnvTorchTrace: "100", pg.EnvTraceSize: "7"}, pg.DebugOff, 7, ""},
		{map[string]string{pg.EnvTraceSize: "-1"}, 0, 0, pg.EnvTraceSize},
		{map[string]string{pg.EnvTraceSize: "many"}, 0, 0, pg.EnvTraceSize},
	}
	for _, c := range cases {
		for _, name := range []string{pg.EnvDebug, pg.EnvTorchDebug, pg.EnvTraceSize, pg.EnvTorchTrace} {
			t.Setenv(name, c.env[name])
		}
		t.Setenv(pg.EnvTraceFile, t.TempDir()+"/")
		var got pg.DebugConfig
		err := got.FromEnv()
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%v: %v, want an error that names %s", c.env, err, c.bad)
			}
			continue
		}
		entries := 0
		if got.Trace != nil {
			entries = got.Trace.Entries
			if got.Trace.Dump == nil {
				t.Errorf("%v: no dump", c.env)
			}
		}
		if err != nil || got.Level != c.level || entries != c.trace {
			t.Errorf("%v: level %v, %d entries: %v", c.env, got.Level, entries, err)
		}
	}
}

// TestReportError: Swallow skips what comes after an error that its user found;
// a group without such a decorator is aborted.
func TestReportError(t *testing.T) {
	cause := errors.New("loss is not a number")
	for name, b := range map[string]pg.Backend{"swallow": pg.NewSwallow(pg.NewDummy()), "plain": pg.NewDummy()} {
		g := pg.NewGroup(b)
		if err := g.Configure(t.Context(), stubConfig1()); err != nil {
			t.Fatal(err)
		}
		g.ReportError(cause)
		if err := g.Err(); !errors.Is(err, cause) {
			t.Errorf("%s: Err is %v", name, err)
		}
		if err := g.Barrier(t.Context()); (err == nil) != (name == "swallow") {
			t.Errorf("%s: barrier after it: %v", name, err)
		}
	}
}

func stubConfig1() pg.Config {
	return pg.Config{StoreAddress: "s/1", ReplicaIDs: []string{"a"}, Cluster: "c", QuorumID: 1}
}

func (o *tally) End(_ pg.OpInfo, _ time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.ended++
	if err != nil {
		o.mu.failed++
	}
}

// TestObserve: every op begins and ends once, in step.
func TestObserve(t *testing.T) {
	o := &tally{}
	g := pg.NewGroup(pg.NewObserve(pg.NewDummy(), o))
	if err := g.Configure(t.Context(), stubConfig1()); err != nil {
		t.Fatal(err)
	}
	_ = g.AllReduce(t.Context(), tensor.New(tensor.Float32, 3), tensor.Max)
	if last := o.mu.last; last.Kind != pg.KindAllReduce || last.Reduce != tensor.Max || last.InBytes != 12 || last.DType != tensor.Float32 {
		t.Errorf("told of %+v", last)
	}
	g.Abort(errors.New("enough"))
	_ = g.Barrier(t.Context())
	if begun, ended, failed := o.ops(); begun != 2 || ended != 2 || failed != 1 {
		t.Errorf("%d begun, %d ended, %d failed; want 2, 2, 1", begun, ended, failed)
	}
}
