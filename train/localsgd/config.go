package localsgd

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/dist/quant"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/tensor"
)

// DefaultBucketBytes is how much is reduced as one op.
const DefaultBucketBytes = 32 << 20

// maxFragments bounds the fragments of a model.
const maxFragments = 1 << 16

// Config says how LocalSGD averages. It is the same on all replicas.
type Config struct {
	// Every is how many inner steps a round has, 1 or more. Too low costs reductions;
	// too high lets replicas part so far that their average is worse than each of them.
	Every int

	// Rounds is how many rounds there are: those beyond change nothing, on any replica, and
	// Step returns ErrDone. 0 means no end.
	Rounds int64

	Reduction Reduction
}

// Reduction says how elements are reduced. The zero value is good.
type Reduction struct {
	// BucketBytes is how much is reduced as one op, in bytes of float32; 0 means
	// DefaultBucketBytes. It is rounded down to whole elements, or whole rows of Quantize, but to
	// one at least. Too low costs a message for every few elements; too high costs memory of
	// the backend's.
	BucketBytes int

	// Quantize reduces in eight bits per element; nil means in float32. What is quantised is
	// what the replicas have come away from the global parameters, under LocalSGD too, so that
	// errors are of the size of a round's updates. In a row of Quantize an update far smaller
	// than the row's largest is rounded to nothing.
	Quantize *quant.Options
}

// DiLoCoConfig says how DiLoCo synchronises. It is the same on all replicas.
type DiLoCoConfig struct {
	// Every is in how many inner steps each fragment is synchronised once: a multiple of
	// the number of fragments, 1 or more.
	Every int

	// Rounds is how many rounds there are, each of one fragment: those beyond change
	// nothing, on any replica, and Step returns ErrDone. 0 means no end.
	Rounds int64

	// Outer is the optimizer of the global parameters.
	Outer SGD

	// Delay is how many inner steps a reduction has for itself: it starts so long before the
	// end of its round. 0 to Every divided by the fragments, less 1. The pseudo-gradients miss
	// the inner steps of the delay. Source: torchft fragment_sync_delay.
	Delay int

	// Alpha is what part of the live parameters is kept in a commit, 0 to 1: 0 takes
	// the global ones, 1 goes on with the local ones. Source: torchft fragment_update_alpha.
	Alpha float32

	Reduction Reduction
}

// Param is a parameter that inner steps change.
type Param struct {
	Name  string        // of no other parameter of the model
	Value tensor.Tensor // contiguous memory of the CPU, of float32, float16 or bfloat16; it stays where it is
}

// settings are what both algorithms come to.
type settings struct {
	local     bool // LocalSGD, by name
	outer     *SGD // nil: what is reduced are the live parameters, and the average is the global ones
	period    int  // inner steps of a round
	delay     int
	alpha     float32
	rounds    int64
	reduction Reduction
}

func (c Config) settings() (settings, error) {
	var bad problems.List
	bad.Want(c.Every >= 1, "Every", c.Every, "1 or more")
	problems.NotNegative(&bad, "Rounds", c.Rounds)
	bad.Add(c.Reduction.validate())
	s := settings{local: true, period: c.Every, rounds: c.Rounds, reduction: c.Reduction}
	if c.Reduction.Quantize != nil {
		// Eight bits span the range of a row. Of parameters they would hold no update below half
		// a step of that, in any round; what moved since the last round fills them.
		s.outer = &SGD{Rate: 1}
	}
	return s, bad.Err()
}

func (c DiLoCoConfig) settings(fragments int) (settings, error) {
	var bad problems.List
	bad.Want(fragments >= 1 && fragments <= maxFragments, "fragments", fragments, "1 to %d", maxFragments)
	fragments = max(fragments, 1)
	period := c.Every / fragments
	bad.Want(c.Every >= 1 && c.Every%fragments == 0, "Every", c.Every,
		"1 or more, and a multiple of the fragments, %d", fragments)
	bad.Want(c.Delay >= 0 && c.Delay < max(period, 1), "Delay", c.Delay,
		"0 or more, and less than Every divided by the fragments, %d", period)
	bad.Want(c.Alpha >= 0 && c.Alpha <= 1, "Alpha", c.Alpha, "0 to 1")
	problems.NotNegative(&bad, "Rounds", c.Rounds)
	bad.Add(c.Outer.validate(), c.Reduction.validate())
	outer := c.Outer
	return settings{
		outer: &outer, period: period, delay: c.Delay, alpha: c.Alpha, rounds: c.Rounds, reduction: c.Reduction,
	}, bad.Err()
}

func (r Reduction) validate() error {
	bad := problems.List{Prefix: "Reduction."}
	problems.NotNegative(&bad, "BucketBytes", r.BucketBytes)
	if r.Quantize != nil {
		bad.About("Quantize", r.Quantize.Validate())
	}
	return bad.Err()
}

// floatBytes is what an element takes that is reduced as it is.
const floatBytes = 4

// bucket is how many elements are reduced as one op.
func (r Reduction) bucket() int {
	unit := 1
	if r.Quantize != nil {
		unit = r.Quantize.RowElements()
	}
	return max(cmp.Or(r.BucketBytes, DefaultBucketBytes)/floatBytes/unit, 1) * unit
}

// checkParams finds out whether the parameters can be averaged.
func checkParams(fragments [][]Param) error {
	var errs []error
	seen := make(map[string]bool)
	for f, params := range fragments {
		if len(params) == 0 {
			errs = append(errs, fmt.Errorf("fragment %d has no parameters, want 1 or more", f))
		}
		for _, p := range params {
			switch d := p.Value.DType(); {
			case seen[p.Name]:
				errs = append(errs, fmt.Errorf("parameter name %q is taken", p.Name))
			case d != tensor.Float32 && d != tensor.Float16 && d != tensor.BFloat16:
				errs = append(errs, fmt.Errorf("parameter %q is %v, want float32, float16 or bfloat16", p.Name, d))
			case p.Value.NumBytes() != len(p.Value.Bytes()):
				errs = append(errs, fmt.Errorf("parameter %q is %v, want contiguous memory of the cpu", p.Name, p.Value))
			}
			seen[p.Name] = true
		}
	}
	return errors.Join(errs...)
}
