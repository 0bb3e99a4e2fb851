package nccl

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/nccl/diagnose/diagnosetest"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/trace"
	"github.com/skerry-ft/skerry/tensor"
)

// debugBytes is how much of the log is attached: see diagnose.Tail.
const debugBytes = 64 << 10

var _ trace.Attacher = (*Backend)(nil)

// An op that hangs, and an error of the library, carry what RAS says, in the error
// and in the dump of the flight recorder, with the end of the library's log.
func TestErrorsCarryRAS(t *testing.T) {
	f := open(t)
	log := filepath.Join(t.TempDir(), "nccl.log")
	if err := os.WriteFile(log, []byte(strings.Repeat("old\n", debugBytes)+"NET/IB : link down\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		fault   int32
		limit   time.Duration // of the op; RAS has half of it
		inError bool
	}{"hang": {collectiveNeverEnds, 10 * shortLimit, true}, "async error": {asyncError, pgtest.Bound, false}} {
		t.Run(name, func(t *testing.T) {
			ras := diagnosetest.RASServer(t, "rank 1 is missing", false)
			b, err := New(Options{Library: f.lib, Device: f.device(t, 0), RAS: ras, DebugFile: log, AbortLimit: pgtest.PromptBound})
			if err != nil {
				t.Fatal(err)
			}
			dumps := make(chan trace.Dump, 1)
			traced := trace.NewRecorder(b, trace.Config{Dump: func(d trace.Dump) error {
				dumps <- d
				return nil
			}})
			w := pgtest.NewWorld(t, pgtest.StartStore(t))
			w.Configure(pgtest.Member{ID: "solo", Backend: traced})
			x := onDevice(t, b, tensor.New(tensor.Float32, 16))
			f.fault(c.fault)
			work := w.Groups[0].Submit(&pg.Op{
				Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Deadline: time.Now().Add(c.limit),
			})
			<-work.Done()
			f.fault(wellBehaved)
			if err := work.Err(); err == nil || c.inError != strings.Contains(err.Error(), "RAS says: rank 1 is missing") {
				t.Errorf("op: %v, want what RAS says in it: %v", err, c.inError)
			}
			if c.inError && !errors.Is(work.Err(), context.DeadlineExceeded) {
				t.Errorf("op: %v, want a deadline", work.Err())
			}
			select {
			case d := <-dumps:
				if got := d.Attachments["nccl-ras"]; got != "rank 1 is missing" {
					t.Errorf("the dump says of RAS %q", got)
				}
				if got := d.Attachments["nccl-debug"]; len(got) != debugBytes || !strings.HasSuffix(got, "link down\n") {
					t.Errorf("the dump has %d bytes of the log, want %d with its end", len(got), debugBytes)
				}
			case <-time.After(pgtest.Bound):
				t.Error("no dump")
			}
			if err := traced.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// NCCL_* variables reach the library in a child: the child asks the RAS service
// that this process's environment names, and its answer comes back with the op.
func TestVariablesReachBaby(t *testing.T) {
	f := open(t)
	t.Setenv("NCCL_RAS_ADDR", diagnosetest.RASServer(t, "rank 1 is missing", false))
	dev := f.device(t, 0)
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	x := onDeviceOf(t, dev, tensor.New(tensor.Float32, 16))
	mem, _ := x.Memory()
	err := oneEpoch(t, w, babyOf(t, f, collectiveNeverEnds), mem.(*Buffer), epochLimits{configure: pgtest.Bound, op: 10 * shortLimit})
	if dead, ok := errors.AsType[*baby.ChildError](err); ok && errors.Is(err, context.DeadlineExceeded) {
		t.Skipf("the child stood still at the deadline, and can say nothing: %v", dead)
	}
	if err == nil || !strings.Contains(err.Error(), "RAS says: rank 1 is missing") {
		t.Errorf("op: %v, want what RAS says in it", err)
	}
}
