package localsgd

import (
	"github.com/skerry-ft/skerry/tensor"
)

// fragment is parameters that are synchronised together. Its elements lie one parameter
// after the other.
type fragment struct {
	params   []Param
	offsets  []int     // of each parameter, and the end of all
	global   []float32 // of the last committed round
	momentum []float32 // of the outer optimizer; empty without
}

func newFragment(params []Param, momentum bool) *fragment {
	f := &fragment{params: params}
	n := 0
	for _, p := range params {
		f.offsets = append(f.offsets, n)
		n += p.Value.Len()
	}
	f.offsets = append(f.offsets, n)
	f.global = make([]float32, n)
	if momentum {
		f.momentum = make([]float32, n)
	}
	f.each(func(i int, live tensor.Tensor) { widen(f.of(f.global, i), live) })
	return f
}

// of are the elements of parameter i among those of the fragment.
func (f *fragment) of(elements []float32, i int) []float32 {
	return elements[f.offsets[i]:f.offsets[i+1]]
}

func (f *fragment) each(do func(i int, live tensor.Tensor)) {
	for i, p := range f.params {
		do(i, p.Value)
	}
}

// live writes the live parameters to dst.
func (f *fragment) live(dst []float32) {
	f.each(func(i int, live tensor.Tensor) { widen(f.of(dst, i), live) })
}

// away writes to dst how far the live parameters have come away from the global ones:
// global − live. A global one is taken as its dtype can hold it, so that a parameter which
// stood still has come nowhere.
func (f *fragment) away(dst []float32) {
	f.live(dst)
	f.each(func(i int, live tensor.Tensor) {
		to, global := f.of(dst, i), f.of(f.global, i)
		switch live.DType() {
		case tensor.Float16:
			for j, g := range global {
				to[j] = tensor.NewF16(g).Float32() - to[j]
			}
		case tensor.BFloat16:
			for j, g := range global {
				to[j] = tensor.NewBF16(g).Float32() - to[j]
			}
		default:
			for j, g := range global {
				to[j] = g - to[j]
			}
		}
	})
}

// back makes the live parameters the global ones.
func (f *fragment) back() {
	f.each(func(i int, live tensor.Tensor) { narrow(live, f.of(f.global, i)) })
}

// blend leaves alpha of the live parameters, and takes the rest from the global ones.
func (f *fragment) blend(alpha float32) {
	if alpha == 0 {
		f.back()
		return
	}
	mixed := make([]float32, len(f.global))
	f.live(mixed)
	for i, local := range mixed {
		mixed[i] = lerp(f.global[i], local, alpha)
	}
	f.each(func(i int, live tensor.Tensor) { narrow(live, f.of(mixed, i)) })
}

// lerp is from a to b, which it is for 1 exactly. Source: torch.lerp.
func lerp(a, b, weight float32) float32 {
	if weight < 0.5 {
		return a + float32(weight*(b-a))
	}
	return b - float32((b-a)*(1-weight))
}

// widen writes a tensor's elements to dst.
func widen(dst []float32, t tensor.Tensor) {
	switch t.DType() {
	case tensor.Float16:
		for i, v := range tensor.Slice[tensor.F16](t) {
			dst[i] = v.Float32()
		}
	case tensor.BFloat16:
		for i, v := range tensor.Slice[tensor.BF16](t) {
			dst[i] = v.Float32()
		}
	default:
		copy(dst, tensor.Slice[float32](t))
	}
}

// narrow writes src to a tensor's elements.
func narrow(t tensor.Tensor, src []float32) {
	switch t.DType() {
	case tensor.Float16:
		for i, dst := 0, tensor.Slice[tensor.F16](t); i < len(dst); i++ {
			dst[i] = tensor.NewF16(src[i])
		}
	case tensor.BFloat16:
		for i, dst := 0, tensor.Slice[tensor.BF16](t); i < len(dst); i++ {
			dst[i] = tensor.NewBF16(src[i])
		}
	default:
		copy(tensor.Slice[float32](t), src)
	}
}
