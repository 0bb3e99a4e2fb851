package tcp

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/trace"
)

// TestTraceQuiet: a group that is configured anew is nothing to dump for; one
// that broke with nothing under way is.
func TestTraceQuiet(t *testing.T) {
	t.Parallel()
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	var dumps atomic.Int32
	trace := trace.NewRecorder(New(Options{}), trace.Config{Dump: func(d trace.Dump) error {
		if d.Cause == "" {
			t.Error("dumped without a cause")
		}
		dumps.Add(1)
		return nil
	}})
	m := w.Join("solo", trace)
	for range 5 {
		w.Configure(m)
		if err := w.Groups[0].Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	config, _ := trace.Config()
	if n := dumps.Load(); n != 0 {
		t.Errorf("%d dumps of groups that were configured anew", n)
	}
	backend, ok := trace.Unwrap().(*Backend)
	if !ok {
		t.Fatalf("Trace is around a %T", trace.Unwrap())
	}
	backend.Abort(config.Epoch(), errors.New("behind its back"))
	w.Configure(m)
	eventually(t, "the break was dumped", func() bool { return dumps.Load() == 1 })
}
