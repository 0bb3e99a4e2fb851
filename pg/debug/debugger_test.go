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

// clearEnv unsets all variables of the package, and sets some.
func clearEnv(t *testing.T, env map[string]string) {
	t.Helper()
	for _, name := range []string{
		debug.EnvLevel, debug.EnvTorchLevel, debug.EnvTraceSize, debug.EnvTorchTrace,
		debug.EnvTraceFile, debug.EnvTorchFile, debug.EnvTraceOnFail, debug.EnvTorchOnFail,
	} {
		t.Setenv(name, env[name])
	}
}

func TestDebugConfigFromEnv(t *testing.T) {
	cases := []struct {
		env   map[string]string
		level debug.Level
		trace int
		dumps bool
	}{
		{nil, debug.Off, 0, false},
		{map[string]string{debug.EnvTorchLevel: "DETAIL"}, debug.Detail, 0, false},
		{map[string]string{debug.EnvTorchLevel: "DETAIL", debug.EnvLevel: "off"}, debug.Off, 0, false},
		{map[string]string{debug.EnvTorchTrace: "100"}, debug.Off, 100, false},
		{map[string]string{debug.EnvTorchTrace: "100", debug.EnvTraceFile: "x"}, debug.Off, 100, true},
		{map[string]string{debug.EnvTorchTrace: "100", debug.EnvTorchFile: "x", debug.EnvTorchOnFail: "true"}, debug.Off, 100, true},
		{map[string]string{debug.EnvTorchTrace: "100", debug.EnvTraceSize: "7", debug.EnvTorchFile: "x", debug.EnvTorchOnFail: "No"}, debug.Off, 7, false},
		{map[string]string{debug.EnvTraceSize: "7", debug.EnvTraceOnFail: "0"}, debug.Off, 7, false},
		// Turned off on purpose, whatever else there is.
		{map[string]string{debug.EnvTraceSize: "0", debug.EnvTorchTrace: "100", debug.EnvTraceFile: "x", debug.EnvTraceOnFail: "1"}, debug.Off, 0, false},
		{map[string]string{debug.EnvTraceOnFail: "0"}, debug.Off, 0, false},
	}
	for _, c := range cases {
		clearEnv(t, c.env)
		var log bytes.Buffer
		got := debug.Config{Log: zerolog.New(&log)}
		err := got.FromEnv()
		entries, dumps := 0, false
		if got.Trace != nil {
			entries, dumps = got.Trace.Entries, got.Trace.Dump != nil
		}
		if err != nil || got.Level != c.level || entries != c.trace || dumps != c.dumps || log.Len() > 0 {
			t.Errorf("%v: level %v, %d entries, dumps %t: %v %s", c.env, got.Level, entries, dumps, err, &log)
		}
	}
}

// What FromEnv cannot do as it is told is an error that names the variable, or both of two
// that belong together; of torch's own, which may be set for torch, a warning.
func TestDebugConfigFromEnvRefuses(t *testing.T) {
	cases := []struct {
		env   map[string]string
		names []string // of variables, in the error or the warning
		warns bool
	}{
		{map[string]string{debug.EnvLevel: "loud"}, []string{debug.EnvLevel}, false},
		{map[string]string{debug.EnvTraceSize: "-1"}, []string{debug.EnvTraceSize}, false},
		{map[string]string{debug.EnvTraceSize: "1048577"}, []string{debug.EnvTraceSize, "1048576"}, false},
		{map[string]string{debug.EnvTraceSize: "many"}, []string{debug.EnvTraceSize}, false},
		{map[string]string{debug.EnvTorchOnFail: "2"}, []string{debug.EnvTorchOnFail}, false},
		{map[string]string{debug.EnvTraceFile: "x"}, []string{debug.EnvTraceFile, debug.EnvTraceSize}, false},
		{map[string]string{debug.EnvTraceFile: "x", debug.EnvTorchTrace: "0"}, []string{debug.EnvTraceFile, debug.EnvTraceSize}, false},
		{map[string]string{debug.EnvTraceOnFail: "1"}, []string{debug.EnvTraceOnFail, debug.EnvTraceSize}, false},
		{map[string]string{debug.EnvTraceOnFail: "1", debug.EnvTraceSize: "7"}, []string{debug.EnvTraceOnFail, debug.EnvTraceFile}, false},
		{map[string]string{debug.EnvTorchFile: "x"}, []string{debug.EnvTorchFile, debug.EnvTraceSize}, true},
		{map[string]string{debug.EnvTorchOnFail: "1"}, []string{debug.EnvTorchOnFail, debug.EnvTraceSize}, true},
		{map[string]string{debug.EnvTorchOnFail: "1", debug.EnvTorchTrace: "7"}, []string{debug.EnvTorchOnFail, debug.EnvTraceFile}, true},
	}
	for _, c := range cases {
		clearEnv(t, c.env)
		var log bytes.Buffer
		got := debug.Config{Log: zerolog.New(&log)}
		err := got.FromEnv()
		says := log.String()
		if err != nil {
			says += err.Error()
		}
		for _, name := range c.names {
			if !strings.Contains(says, name) {
				t.Errorf("%v: %q does not name %s", c.env, says, name)
			}
		}
		if (err == nil) != c.warns || (log.Len() > 0) != c.warns {
			t.Errorf("%v: error %v, log %s; want a warning instead of an error: %t", c.env, err, &log, c.warns)
		}
	}
}
