package checkpoint

import (
	"context"
	"testing"
)

// PaceForTest spends n bytes in steps of 64 KiB.
func PaceForTest(t *testing.T, perSecond, n int64) {
	t.Helper()
	p := &pace{perSecond: perSecond}
	const step = 64 << 10
	for ; n > 0; n -= step {
		if err := p.wait(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
}

// PacerForTest is a pace's wait.
func PacerForTest(perSecond int64) func(ctx context.Context, n int64) error {
	return (&pace{perSecond: perSecond}).wait
}

// FreeBuffersForTest is how many buffers readers of v find free.
func FreeBuffersForTest(t *HTTP, v Version) int { return len(t.buffersFor(v).free) }

// ProbesForTest is probes.
const ProbesForTest = probes
