package debug_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/pg/dummy"
	"github.com/skerry-ft/skerry/pg/observe"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/trace"
	"github.com/skerry-ft/skerry/tensor"
)

// TestDetailConforms: everything at once changes nothing.
func TestDetailConforms(t *testing.T) {
	d := debug.New(debug.Config{
		Level: debug.Detail, Trace: &trace.Config{Entries: 32},
		Observer: func(string) observe.Observer { return deaf{} },
	})
	conform(t, func(b pg.Backend) pg.Backend { return d.Wrap("all", b) })
}

// deaf is an Observer that takes no notice.
type deaf struct{}

func (deaf) Begin(observe.Info) {}

func (deaf) End(observe.Info, time.Duration, error) {}

// conform checks a decorator that is not to be noticed, over backends in memory.
func conform(t *testing.T, wrap func(pg.Backend) pg.Backend) {
	h := pgtest.MemoryHarness(wrap)
	h.DTypes = []tensor.DType{tensor.Float32, tensor.Int64} // the backend's own test has them all
	pgtest.RunWith(t, h)
}

// layers names the decorators of b, from outside to inside.
func layers(b pg.Backend) string {
	var names []string
	for {
		switch b.(type) {
		case *debug.Check:
			names = append(names, "check")
		case *trace.Recorder:
			names = append(names, "trace")
		case *observe.Decorator:
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
	d := debug.New(debug.Config{})
	if b := dummy.New(); d.Wrap("x", b) != pg.Backend(b) {
		t.Error("OFF wraps")
	}
	d.SetLevel(debug.Info)
	if got := layers(d.Wrap("x", dummy.New())); got != "narrator" {
		t.Errorf("INFO adds %q", got)
	}
	d.SetLevel(debug.Detail)
	if got := layers(d.Wrap("x", dummy.New())); got != "narrator check" || d.Level() != debug.Detail {
		t.Errorf("DETAIL adds %q", got)
	}
	t.Setenv(debug.EnvTorchLevel, "info")
	if err := d.SetLevelFromEnv(); err != nil || d.Level() != debug.Info {
		t.Errorf("level %v from the environment: %v", d.Level(), err)
	}
	all := debug.New(debug.Config{
		Level: debug.Detail, Trace: &trace.Config{}, Observer: func(string) observe.Observer { return deaf{} },
	})
	if got := layers(all.Wrap("x", dummy.New())); got != "trace narrator observe check" {
		t.Errorf("everything adds %q", got)
	}
	var none *debug.Debugger
	if b := dummy.New(); none.Wrap("x", b) != pg.Backend(b) {
		t.Error("no Debugger wraps")
	}
}

// TestDebugReachesSubgroups: what is on a group is on its subgroups, under
// their names.
func TestDebugReachesSubgroups(t *testing.T) {
	var out [2]bytes.Buffer
	rank := 0
	w := pgtest.MemoryWorld(t, 2, func(b pg.Backend) pg.Backend {
		d := debug.New(debug.Config{
			Level: debug.Detail, Trace: &trace.Config{}, Log: zerolog.New(&out[rank]),
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
		if got := sub.Backend().(*trace.Recorder).Dump().Group; got != "world/tp" {
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
		level debug.Level
		trace int
		bad   string
	}{
		{nil, debug.Off, 0, ""},
		{map[string]string{debug.EnvTorchLevel: "DETAIL"}, debug.Detail, 0, ""},
		{map[string]string{debug.EnvTorchLevel: "DETAIL", debug.EnvLevel: "off"}, debug.Off, 0, ""},
		{map[string]string{debug.EnvLevel: "loud"}, 0, 0, debug.EnvLevel},
		{map[string]string{debug.EnvTorchTrace: "100"}, debug.Off, 100, ""},
		{map[string]string{debug.EnvTorchTrace: "100", debug.EnvTraceSize: "7"}, debug.Off, 7, ""},
		{map[string]string{debug.EnvTraceSize: "-1"}, 0, 0, debug.EnvTraceSize},
		{map[string]string{debug.EnvTraceSize: "many"}, 0, 0, debug.EnvTraceSize},
	}
	for _, c := range cases {
		for _, name := range []string{debug.EnvLevel, debug.EnvTorchLevel, debug.EnvTraceSize, debug.EnvTorchTrace} {
			t.Setenv(name, c.env[name])
		}
		t.Setenv(debug.EnvTraceFile, t.TempDir()+"/")
		var got debug.Config
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
