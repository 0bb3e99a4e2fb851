package bench

import (
	"cmp"
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/quorum"
)

// The envelope: a comparison reads 8 MiB once, from memory that the optimizer has
// just written, at 5 to 15 GB/s of one core: 0.6 to 1.7 ms. In every eighth step that
// is 0.1 to 0.2 ms a step, a thousandth of one of 200 ms, whatever the state's size. The
// whole state in each step is as many times that as it has MiB.

const (
	parityBytes   = 256 << 20
	paritySamples = 40
	parityStepMs  = 200 // that the share is given of
)

// runParity measures what comparing states at rest adds to a step that has no
// computation to hide it: steps that compare and such that do not, in turn, of one
// replica whose optimizer writes its whole state.
func runParity(ctx context.Context, o Options, emit emitFunc) error {
	for _, bytes := range o.sizes(parityBytes) {
		for _, whole := range []bool{false, true} {
			plain, compared, err := measureParity(ctx, bytes, whole, cmp.Or(o.Samples, paritySamples))
			if err != nil {
				return err
			}
			base := median(plain)
			added := make([]float64, len(compared))
			for i, us := range compared {
				added[i] = us - base
			}
			every, within := int64(quorum.DefaultParityEvery), quorum.ParityBound(quorum.DefaultParityEvery, bytes)
			if whole { // then one looks in every step
				every, within = 1, 1
			}
			each := median(added) / float64(every)
			p := Params{
				"mib": float64(bytes) / (1 << 20), "whole": whole, "plain_us": base, "per_step_us": each,
				"percent_of_200ms": each / (parityStepMs * 1000) * 100, "found_within": within,
			}
			emit(Contest{Bench: "parity", Unit: "us"}.row("skerry", p, added))
		}
	}
	return nil
}

// measureParity times steps, in microseconds.
func measureParity(ctx context.Context, bytes int64, whole bool, samples int) (plain, compared []float64, err error) {
	s, err := startServers(ctx, serverOptions{count: 1, minReplicas: 1})
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	const every = 2
	state := make([]float32, bytes/4)
	err = withManager(ctx, manager.Config{
		ReplicaID: "parity", Lighthouse: s.addrs, Backend: tcp.New(tcp.Options{}), ParityEvery: every, ParityWhole: whole, Log: zerolog.Nop(),
	}, state, func(ctx context.Context, m *manager.Manager) error {
		for len(plain) < samples || len(compared) < samples {
			began := time.Now()
			due := quorum.ParityDue(m.Step()+1, every)
			if err := m.StartQuorum(ctx); err != nil {
				return err
			}
			ok, err := m.ShouldCommit(ctx)
			us := float64(time.Since(began).Nanoseconds()) / 1000
			switch {
			case err != nil:
				return err
			case !ok || m.Step() <= 2: // the first quorum
			case due:
				compared = append(compared, us)
			default:
				plain = append(plain, us)
			}
			for i := range state { // the optimizer
				state[i]++
			}
		}
		return nil
	})
	return plain, compared, err
}
