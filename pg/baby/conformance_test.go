package baby

import (
	"flag"
	"syscall"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// wholeSuite has the suite run in groups of five, as make conformance does.
var wholeSuite = flag.Bool("baby.whole", false, "the suite in groups of five, not three")

func TestConformance(t *testing.T) {
	largest := 3
	if *wholeSuite {
		largest = 0 // as large as it goes
	}
	pgtest.RunWith(t, pgtest.Harness{
		MaxWorldSize: largest,
		New:          func(t *testing.T) pg.Backend { return newBaby(t, Options{Silence: pgtest.Bound}) },
		Kill:         func(b pg.Backend) { killChild(t, b.(*Backend)) },
	})
}

// killChild does to the child what the kernel's out-of-memory killer does.
func killChild(t testing.TB, b *Backend) {
	t.Helper()
	pid, ok := b.Child()
	if !ok {
		t.Error("no child to kill")
		return
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("kill child %d: %v", pid, err)
	}
}
