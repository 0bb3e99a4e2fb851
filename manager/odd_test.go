package manager

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

// A late-comer calls collectives of another size, for ever, as one of another
// version would: after its second time the others train on without it. In real time: what
// breaks a group on such a call is pg/tcp, which has sockets of the kernel.
func TestOddReplicaIsLeftOut(t *testing.T) {
	t.Parallel()
	w := newKernelWorld(t)
	replica := func(name string) *trainer {
		backend := tcp.New(tcp.Options{})
		return w.trainerOn(name, backend, backend)
	}
	a, b, c := replica("a"), replica("b"), replica("c")
	a.start(1 << 40)
	b.start(1 << 40)
	w.reaches(5, a, b)
	c.ops = func(ctx context.Context, grads []float32) error {
		_ = c.m.Group().AllReduce(ctx, tensor.Of(grads[:len(grads)-1]), tensor.Avg) // the group breaks: ShouldCommit says so
		return nil
	}
	c.start(1 << 40)
	eventually(t, "the lighthouse has refused c", func() bool {
		return slices.ContainsFunc(w.lh.transcript(), func(line string) bool {
			return strings.HasPrefix(line, "refused c:")
		})
	})
	w.reaches(a.m.Step()+20, a, b)
	w.agree(a, b)
}
