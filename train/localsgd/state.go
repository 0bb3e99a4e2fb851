package localsgd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/tensor"
)

// StateName is under which name an Averager registers its state.
const StateName = "localsgd"

// The names in an Averager's state.
const (
	prefixGlobal   = "global."
	prefixMomentum = "momentum."
	tensorCounters = "counters" // int64: rounds, and those of each fragment
	metaLayout     = "layout"   // digest of the parameters' names and sizes, by fragment
	metaAlgorithm  = "algorithm"
)

// State is the global state, as views of the memory: for the manager, and for checkpoints that
// outlive the job. It is that of the last committed round, also in the middle of the next.
func (a *Averager) State() checkpoint.State {
	s := checkpoint.State{Tensors: make(map[string]tensor.Tensor), Meta: a.meta()}
	s.Tensors[tensorCounters] = tensor.Of(a.counters)
	for _, f := range a.fragments {
		f.each(func(i int, live tensor.Tensor) {
			name := f.params[i].Name
			s.Tensors[prefixGlobal+name] = tensor.Of(f.of(f.global, i)).ShapedLike(live)
			if f.momentum != nil {
				s.Tensors[prefixMomentum+name] = tensor.Of(f.of(f.momentum, i)).ShapedLike(live)
			}
		})
	}
	return s
}

// meta says what the state is of.
func (a *Averager) meta() map[string]string {
	sum := sha256.New()
	for i, f := range a.fragments {
		f.each(func(j int, live tensor.Tensor) {
			_, _ = fmt.Fprintf(sum, "%d %q %v\n", i, f.params[j].Name, live.Shape()) // a hash has no error
		})
	}
	algorithm := "diloco"
	if a.local {
		algorithm = "local-sgd"
	}
	return map[string]string{metaLayout: hex.EncodeToString(sum.Sum(nil)), metaAlgorithm: algorithm}
}

// Load is told that the state has been written, by a heal or from a checkpoint: the
// counterpart of State. It makes all live parameters the global ones. It refuses the
// state of another algorithm or model, and counters that no run has; training
// cannot go on then.
func (a *Averager) Load(s checkpoint.State) error {
	own := a.meta()
	for _, k := range []string{metaAlgorithm, metaLayout} {
		if s.Meta[k] != own[k] {
			return fmt.Errorf("localsgd: the state's %s is %q, want %q as here", k, s.Meta[k], own[k])
		}
	}
	left := a.counters[0]
	for i, n := range a.counters[1:] {
		if n < 0 || n > left {
			return fmt.Errorf("localsgd: the state's rounds are %v, in all and by fragment: fragment %d has %d, want 0 to %d",
				a.counters, i, n, left)
		}
		left -= n
	}
	if left != 0 {
		return fmt.Errorf("localsgd: the state's rounds are %v, want as many in all as of the fragments", a.counters)
	}
	for _, f := range a.fragments {
		f.back()
	}
	a.taken, a.healed = 0, true
	return nil
}
