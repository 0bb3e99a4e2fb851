package pgtest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	pgtest.RunWith(t, pgtest.MemoryHarness(func(b pg.Backend) pg.Backend { return b }))
}
