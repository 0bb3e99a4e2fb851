package ddp

import (
	"fmt"

	"github.com/skerry-ft/skerry/tensor"
)

// weight is what a rank's gradients count for in a step; the zero value is an equal part.
type weight struct{ mine, all int }

// Weigh says that this rank's gradients of the step that begins are means over mine
// samples, of all that the step has, so that Reduce makes the mean over all samples of
// them: the sum over ranks of gradient*mine/all. Without it every rank counts for the
// same, which is that mean where all have as many samples. With mine = 0 the gradients
// are taken for zeros, whatever they hold, and Ready need not be called.
//
// In a step in which one rank calls it, all must, before their first Ready; Reduce
// ends it. It panics in the middle of a step, and unless 0 <= mine <= all and all >= 1.
// Cost: none besides the copy that Ready makes.
func (r *Reducer) Weigh(mine, all int) {
	if all < 1 || mine < 0 || mine > all {
		panic(fmt.Sprintf("ddp: Weigh %d of %d samples, want 0 to all, and 1 or more in all", mine, all))
	}
	r.unready("Weigh")
	r.step.weight = weight{mine, all}
}

// empty says that this rank has no samples.
func (w weight) empty() bool { return w.all > 0 && w.mine == 0 }

// op is how buckets are reduced.
func (w weight) op() tensor.ReduceOp {
	if w.all == 0 {
		return tensor.Avg
	}
	return tensor.Sum
}

// share is what a gradient is multiplied by.
func (w weight) share() float64 {
	if w.all == 0 {
		return 1
	}
	return float64(w.mine) / float64(w.all)
}

// copy writes the weighed gradient to dst, which may be the same memory. One is scratch.
func (w weight) copy(dst, grad tensor.Tensor, one *[1][]byte) {
	switch {
	case w.all == 0 || w.mine == w.all:
		copy(dst.Bytes(), grad.Bytes())
	case w.empty():
		clear(dst.Bytes())
	default:
		one[0] = grad.Bytes()
		err := tensor.Reduce(dst.Bytes(), one[:], realParts(grad.DType()), tensor.PreMulSum, 1, w.share())
		if one[0] = nil; err != nil {
			panic(fmt.Sprintf("ddp: weigh a gradient of %v: %v", grad.DType(), err)) // New has checked the dtype
		}
	}
}

// realParts is the dtype of a complex number's parts, of which there are two; any
// other is its own.
func realParts(d tensor.DType) tensor.DType {
	switch d {
	case tensor.Complex64:
		return tensor.Float32
	case tensor.Complex128:
		return tensor.Float64
	default:
		return d
	}
}
