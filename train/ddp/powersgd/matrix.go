package powersgd

import (
	"math"
	"math/rand/v2"
)

// Matrices of PowerSGD. An n x m gradient is row by row; factors are column by column, so
// that every loop runs along memory. All ranks compute the same bits from the same
// inputs: sums have a fixed order, and the conversions of products keep the compiler
// from fusing them with additions on processors that can.

// dot is the sum of a[i]*b[i], in four strands: i modulo 4, and ((0+1)+(2+3)) at the end.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += float32(a[i] * b[i])
		s1 += float32(a[i+1] * b[i+1])
		s2 += float32(a[i+2] * b[i+2])
		s3 += float32(a[i+3] * b[i+3])
	}
	switch len(a) - i {
	case 3:
		s2 += float32(a[i+2] * b[i+2])
		fallthrough
	case 2:
		s1 += float32(a[i+1] * b[i+1])
		fallthrough
	case 1:
		s0 += float32(a[i] * b[i])
	}
	return (s0 + s1) + (s2 + s3)
}

// addScaled is dst += by*src.
func addScaled(dst []float32, by float32, src []float32) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] += float32(by * v)
	}
}

// columns writes a*f to out: a has n rows of m, f has columns of m, out such of n.
func columns(out, a, f []float32, n, m int) {
	for j := range len(f) / max(m, 1) {
		col := f[j*m : (j+1)*m]
		for i := range n {
			out[j*n+i] = dot(a[i*m:(i+1)*m], col)
		}
	}
}

// columnsTransposed writes aᵀ*f to out: a has n rows of m, f has columns of n, out such of m.
func columnsTransposed(out, a, f []float32, n, m int) {
	clear(out)
	for j := range len(f) / max(n, 1) {
		col := out[j*m : (j+1)*m]
		for i := range n {
			addScaled(col, f[j*n+i], a[i*m:(i+1)*m])
		}
	}
}

// row writes row i of p*qᵀ to out: p has columns of n, q such of m.
func row(out, p, q []float32, i, n int) {
	m := len(out)
	clear(out)
	for j := range len(p) / max(n, 1) {
		addScaled(out, p[j*n+i], q[j*m:(j+1)*m])
	}
}

// orthogonalize makes the columns of n elements orthonormal, by modified Gram-Schmidt; epsilon is
// added to norms. A column that vanishes stays zero.
// Source: torch's powerSGD_hook, _orthogonalize_gram_schmidt.
func orthogonalize(cols []float32, n int, epsilon float32) {
	count := len(cols) / max(n, 1)
	for j := range count {
		col := cols[j*n : (j+1)*n]
		norm := float32(math.Sqrt(float64(dot(col, col)))) + epsilon
		if norm == 0 {
			continue
		}
		for i := range col {
			col[i] /= norm
		}
		for k := j + 1; k < count; k++ {
			rest := cols[k*n : (k+1)*n]
			addScaled(rest, -dot(col, rest), col)
		}
	}
}

// drawer draws factors. It is made by newDrawer.
type drawer struct {
	source rand.PCG
	normal *rand.Rand // of source
	seed   uint64
}

func newDrawer(seed uint64) *drawer {
	d := &drawer{seed: seed}
	d.normal = rand.New(&d.source)
	return d
}

// drawn says what a factor is drawn for.
type drawn struct {
	param  int
	step   int64
	column int
}

// fill fills a factor with normally distributed numbers that follow from the seed and
// what they are for.
func (d *drawer) fill(out []float32, of drawn) {
	d.source.Seed(d.seed^uint64(of.param)<<32, uint64(of.step)^uint64(of.column)<<48)
	for i := range out {
		out[i] = float32(d.normal.NormFloat64())
	}
}

// vanishes tells whether a column is all zeros.
func vanishes(col []float32) bool {
	for _, v := range col {
		if v != 0 {
			return false
		}
	}
	return true
}
