package pgtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memoryHarness puts wrap around in-memory backends. Their addresses are only
// names, so no store is needed.
func memoryHarness(wrap func(pg.Backend) pg.Backend) pgtest.Harness {
	net := pgtest.NewMemory()
	inner := func(b pg.Backend) *pgtest.MemoryBackend {
		for {
			if m, ok := b.(*pgtest.MemoryBackend); ok {
				return m
			}
			b = b.(pg.Unwrapper).Unwrap()
		}
	}
	return pgtest.Harness{
		New:          func(*testing.T) pg.Backend { return wrap(net.Backend()) },
		StoreAddress: func(t *testing.T) string { return t.Name() },
		Kill:         func(b pg.Backend) { inner(b).Kill() },
		Corrupt:      func(b pg.Backend) { inner(b).CorruptNext() },
	}
}

func TestMemory(t *testing.T) {
	pgtest.RunWith(t, memoryHarness(func(b pg.Backend) pg.Backend { return b }))
}
