package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/eventline"
	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// The envelope: the kernel frees a killed process's memory before it closes its
// sockets, about 0.1 ms per MiB it had touched, once each of its threads had a
// turn to die; the peers' readers wake (10 µs) and tell the others (20 µs). The
// rest is waiting for a processor.

const (
	detectBytes = 64 << 20
	detectKills = 20
)

// runDetect measures from SIGKILL of one rank to the failure of each survivor's
// all-reduce.
func runDetect(ctx context.Context, o Options, emit emitFunc) error {
	bytes, kills := o.sizes(detectBytes)[0], cmp.Or(o.Samples, detectKills)
	if o.Peers {
		o.note("not measured: gloo, openmpi: killing a rank ends or hangs the run")
	}
	for _, n := range o.worlds(8) {
		if n < 2 {
			return fmt.Errorf("n = %d, want at least 2", n)
		}
		for _, kind := range ourTransports() {
			kind.Storm = bytes
			var took []float64
			for range kills {
				more, err := detectOnce(ctx, n, kind)
				if err != nil {
					return err
				}
				took = append(took, more...)
			}
			c := Contest{Bench: "detect", Unit: "ms"}
			emit(c.row(kind.impl, Params{"n": n, "bytes": bytes, "kills": kills}, took))
		}
	}
	return nil
}

// stormLine is what a rank of a storm prints: that it has begun, and how it ended.
type stormLine struct {
	Culprit string `json:"culprit"`
	At      int64  `json:"at"` // on the host's monotonic clock
}

// stormUntilKilled runs all-reduces until one fails, and prints when and by whom.
func (s *rankServer) stormUntilKilled(ctx context.Context) error {
	x, err := s.tensor("in", s.args.Storm)
	if err != nil {
		return err
	}
	for first := true; err == nil; first = false {
		err = s.group.AllReduce(ctx, x, tensor.Max)
		if first && err == nil {
			err = s.out.Encode(stormLine{})
		}
	}
	at := eventline.Now()
	e, ok := errors.AsType[*pg.OpError](err)
	if !ok {
		return err
	}
	return s.out.Encode(stormLine{Culprit: e.PeerID, At: at})
}

// detectOnce starts n ranks, kills the last, and returns each survivor's time in
// milliseconds.
func detectOnce(ctx context.Context, n int, kind rankKind) (took []float64, err error) {
	r, err := startRanks(n, kind)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // one of the ranks is killed
	for _, p := range r.procs {
		if err := p.Next(&stormLine{}); err != nil {
			return nil, err
		}
	}
	if err := backoff.Sleep(ctx, 100*time.Millisecond+time.Duration(rand.IntN(200))*time.Millisecond); err != nil {
		return nil, err
	}
	victim := n - 1
	at := eventline.Now()
	if err := r.procs[victim].Signal(unix.SIGKILL); err != nil {
		return nil, err
	}
	for _, p := range r.procs[:victim] {
		var end stormLine
		if err := p.Next(&end); err != nil {
			return nil, err
		}
		if want := fmt.Sprintf("bench_%d", victim); end.Culprit != want {
			return nil, fmt.Errorf("a survivor blames %q, killed was %q", end.Culprit, want)
		}
		took = append(took, float64(end.At-at)/1e6)
	}
	return took, nil
}
