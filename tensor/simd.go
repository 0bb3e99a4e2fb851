package tensor

// combine computes dst = a op b element by element for the arithmetic ops; Avg
// adds up, and whoever calls divides. dst may be a or b. The vector kernels do
// the same operations on the same operands in the same order as the portable
// loops, so that the result does not depend on the processor.
func combine[T integer | float32 | float64](op ReduceOp, dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	if !kernel(op, dst, a, b) {
		combinePortable(op, dst, a, b)
	}
}

// combinePortable is combine without vector instructions.
func combinePortable[T integer | float32 | float64](op ReduceOp, dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	switch op {
	case Sum, Avg:
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	case Product:
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	case Min:
		for i := range dst {
			dst[i] = lesser(a[i], b[i])
		}
	case Max:
		for i := range dst {
			dst[i] = greater(a[i], b[i])
		}
	}
}

// lesser is the smaller of two, −0 before 0; if one is a NaN, the first that is,
// with all its bits, which min does not promise.
func lesser[T integer | float32 | float64](a, b T) T {
	switch {
	case a != a:
		return a
	case b != b:
		return b
	}
	return min(a, b)
}

// greater is the larger of two, 0 after −0; NaNs as lesser does.
func greater[T integer | float32 | float64](a, b T) T {
	switch {
	case a != a:
		return a
	case b != b:
		return b
	}
	return max(a, b)
}

// foldTiles folds with combine, tile by tile: the first two inputs meet in the
// accumulator, and the last one meets it in dst, so that two inputs need no
// accumulator at all. Avg divides each tile of the result by divisor.
func foldTiles[T integer | float32 | float64](dst []byte, inputs [][]byte, op ReduceOp, divisor int) {
	var accTile, scratch, other [tileElements]T
	size := sizeOf[T]()
	n := len(dst) / size
	for lo := 0; lo < n; lo += tileElements {
		hi := min(lo+tileElements, n)
		out, aligned := sliceOf[T](dst[lo*size : hi*size])
		if !aligned {
			out = accTile[:hi-lo]
		}
		acc := tile(inputs[0], lo, hi, scratch[:])
		for r, in := range inputs[1:] {
			to := accTile[:hi-lo]
			if r == len(inputs)-2 {
				to = out
			}
			combine(op, to, acc, tile(in, lo, hi, other[:]))
			acc = to
		}
		if len(inputs) == 1 {
			copy(out, acc)
		}
		if op == Avg && divisor != 1 {
			divide(out, divisor)
		}
		if !aligned {
			put(dst, lo, out)
		}
	}
}

// divide divides floats. The inverse of a power of two is exact, and so the
// product rounds as the quotient does, several times as fast.
func divide[T integer | float32 | float64](acc []T, divisor int) {
	d := T(divisor)
	if divisor&(divisor-1) == 0 && divisor <= 1<<20 {
		scale(acc, 1/d)
		return
	}
	for i := kernelScale(acc, d, true); i < len(acc); i++ {
		acc[i] /= d
	}
}

// scale is acc *= by.
func scale[T integer | float32 | float64](acc []T, by T) {
	for i := kernelScale(acc, by, false); i < len(acc); i++ {
		acc[i] *= by
	}
}

// addScaled is acc += in*by. The conversion forbids a fused multiply-add, which
// would round differently from one architecture to the next.
func addScaled[T float32 | float64](acc, in []T, by T) {
	in = in[:len(acc)]
	if kernelAddScaled(acc, in, by) {
		return
	}
	for i := range acc {
		acc[i] += T(in[i] * by)
	}
}
