package baby

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// Close ends while the start of a spare, which Configure left behind, still
// waits for its turn.
func TestCloseRightAfterConfigure(t *testing.T) {
	t.Parallel()
	for range 3 {
		w := pgtest.NewWorld(t, pgtest.StartStore(t))
		b, err := New(Options{Backend: patient, Spare: true})
		if err != nil {
			t.Fatal(err)
		}
		w.Configure(w.Join("solo", b))
		ended := make(chan error, 1)
		go func() { ended <- b.Close() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("Close hangs")
		}
	}
}

// Close of a Backend with no op under way ends its child in good order: NCCL would break
// ops of others that are done and not noticed yet.
func TestCloseOfIdleAbortsNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "aborted")
	open := func() *Backend {
		b, err := New(Options{Backend: tattle, Silence: pgtest.Bound, Open: pg.Options{Params: map[string]string{"file": file}}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	a, b := open(), open()
	w.Configure(w.Join("a", a), w.Join("b", b))
	pending := a.Submit(&pg.Op{Kind: pg.KindBarrier})
	if err := b.Submit(&pg.Op{Kind: pg.KindBarrier}).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pending.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(file); err == nil {
		t.Errorf("the child was aborted: %s", text)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}
