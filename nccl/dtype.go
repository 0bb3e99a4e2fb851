package nccl

import (
	"fmt"
	"math"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// Data types and reduce ops of nccl.h.
const (
	ncclInt8     = 0
	ncclUint8    = 1
	ncclInt32    = 2
	ncclUint32   = 3
	ncclInt64    = 4
	ncclUint64   = 5
	ncclFloat16  = 6
	ncclFloat32  = 7
	ncclFloat64  = 8
	ncclBFloat16 = 9
	ncclE4M3     = 10 // these two from 2.24 on
	ncclE5M2     = 11

	ncclSum  = 0
	ncclProd = 1
	ncclMax  = 2
	ncclMin  = 3
	ncclAvg  = 4
)

// arithmetic has the library's types for the dtypes that it can add.
var arithmetic = map[tensor.DType]int32{
	tensor.Int8: ncclInt8, tensor.Uint8: ncclUint8,
	tensor.Int32: ncclInt32, tensor.Uint32: ncclUint32,
	tensor.Int64: ncclInt64, tensor.Uint64: ncclUint64,
	tensor.Float16: ncclFloat16, tensor.BFloat16: ncclBFloat16,
	tensor.Float32: ncclFloat32, tensor.Float64: ncclFloat64,
	tensor.Float8E4M3: ncclE4M3, tensor.Float8E5M2: ncclE5M2,
}

// elements are what one tensor is to the library: a type and a count.
type elements struct {
	dtype int32
	count uint64
}

// moved is t for a collective that only moves: bytes do for every dtype.
func moved(t tensor.Tensor) elements {
	if d, ok := arithmetic[t.DType()]; ok && !t.DType().IsFloat8() {
		return elements{d, uint64(t.Len())}
	}
	return elements{ncclUint8, uint64(t.NumBytes())}
}

// reduced is t for a reduction by op, and the library's op; factor is what each
// rank's elements are multiplied by, 1 for none. A complex sum is one of its
// parts.
func reduced(t tensor.Tensor, op tensor.ReduceOp, divisor, world int, factor float64) (e elements, code int32, scale float64, err error) {
	d, ok := arithmetic[t.DType()]
	e = elements{d, uint64(t.Len())}
	if !ok && op == tensor.Sum {
		switch t.DType() {
		case tensor.Complex64:
			return elements{ncclFloat32, 2 * uint64(t.Len())}, ncclSum, 1, nil
		case tensor.Complex128:
			return elements{ncclFloat64, 2 * uint64(t.Len())}, ncclSum, 1, nil
		}
	}
	if !ok {
		return e, 0, 0, fmt.Errorf("%w: NCCL has no %v of %v", pg.ErrUnsupported, op, t.DType())
	}
	switch op {
	case tensor.Sum:
		return e, ncclSum, 1, nil
	case tensor.Avg:
		if divisor == world {
			return e, ncclAvg, 1, nil
		}
		return e, ncclSum, 1 / float64(divisor), nil
	case tensor.Product:
		return e, ncclProd, 1, nil
	case tensor.Min:
		return e, ncclMin, 1, nil
	case tensor.Max:
		return e, ncclMax, 1, nil
	case tensor.PreMulSum:
		return e, ncclSum, factor, nil
	default:
		return e, 0, 0, fmt.Errorf("%w: NCCL has no reduce op %v", pg.ErrUnsupported, op)
	}
}

// scalar is v in the memory layout of a type that premul-sum takes.
func scalar(dtype int32, v float64) ([]byte, error) {
	switch dtype {
	case ncclFloat32:
		return tensor.Of([]float32{float32(v)}).Bytes(), nil
	case ncclFloat64:
		return tensor.Of([]float64{v}).Bytes(), nil
	case ncclFloat16:
		return tensor.Of([]tensor.F16{tensor.NewF16(float32(v))}).Bytes(), nil
	case ncclE4M3:
		return []byte{float8(v, 3, 7, 0x7e)}, nil
	case ncclE5M2:
		return []byte{float8(v, 2, 15, 0x7b)}, nil
	case ncclBFloat16:
		return tensor.Of([]tensor.BF16{tensor.NewBF16(float32(v))}).Bytes(), nil
	default:
		return nil, fmt.Errorf("%w: NCCL multiplies only floats before a sum", pg.ErrUnsupported)
	}
}

// float8 is the nearest to v of the eight-bit floats with so many bits of mantissa
// and that bias; the finite ones end at most. It looks at all: a factor is made
// once.
func float8(v float64, mantissa, bias int, most byte) byte {
	best, far := byte(0), math.Inf(1)
	for b := range int(most) + 1 {
		e, m := b>>mantissa, float64(b&(1<<mantissa-1))
		if e == 0 {
			e = 1 // subnormal: no leading one
		} else {
			m += float64(int(1) << mantissa)
		}
		if d := math.Abs(math.Ldexp(m, e-bias-mantissa) - math.Abs(v)); d < far {
			best, far = byte(b), d
		}
	}
	if math.Signbit(v) {
		best |= 0x80
	}
	return best
}
