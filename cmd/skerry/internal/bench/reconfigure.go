package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/tensor"
)

// The envelope: a configuration is a few round trips to the store (publish, look
// up each peer that we dial: 50 to 100 µs each), a Hello each way per edge, and
// for a new edge a connection, a Unix connection and two segments, 0.3 ms. Eight
// processes on two cores: 28 edges, 8 ms new, 2 ms kept, and a wake-up per message.

// The kinds of reconfiguration: all edges new, all kept, one rank of them new.
const (
	opNew  = "new"
	opKept = "kept"
	opJoin = "join"
)

// runReconfigure measures from "quorum known" to the first all-reduce done.
func runReconfigure(ctx context.Context, o Options, emit emitFunc) error {
	contest := Contest{Bench: "reconfigure", Unit: "ms", Samples: cmp.Or(o.Samples, 10), Warmup: 1}
	return withRanks(ctx, o, o.worlds(2, 4, 8), ourTransports(), func(n int, all []Contestant) error {
		return contest.Each(ctx, all, emit,
			Params{"edges": opNew, "n": n}, Params{"edges": opKept, "n": n}, Params{"edges": opJoin, "n": n})
	})
}

// reconfigure moves to the next quorum t.Iters times.
func (s *rankServer) reconfigure(ctx context.Context, t task) (float64, error) {
	var total time.Duration
	for range t.Iters {
		next, err := s.group, error(nil)
		newcomer := len(s.ids) - 1
		if t.Op == opNew || t.Op == opJoin && s.rank == newcomer {
			if next, err = s.fresh(); err != nil {
				return 0, err
			}
		}
		s.rename(t.Op)
		if err := s.group.Barrier(ctx); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := s.configure(ctx, next); err != nil {
			return 0, err
		}
		one := []float32{1}
		if err := next.AllReduce(ctx, tensor.Of(one), tensor.Sum); err != nil {
			return 0, err
		}
		total += time.Since(start)
		if one[0] != float32(len(s.ids)) {
			return 0, fmt.Errorf("first sum is %v, want %d", one[0], len(s.ids))
		}
		if next != s.group {
			if err := s.group.Close(); err != nil {
				return 0, err
			}
			s.group = next
		}
	}
	return total.Seconds(), nil
}

// rename gives those who are new the names of another incarnation.
func (s *rankServer) rename(op string) {
	s.ids = slices.Clone(s.ids)
	for i := range s.ids {
		if op == opNew || op == opJoin && i == len(s.ids)-1 {
			s.ids[i] = fmt.Sprintf("bench_%d_%d", i, s.quorum)
		}
	}
}
