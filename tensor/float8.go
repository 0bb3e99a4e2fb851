package tensor

import (
	"errors"
	"fmt"
)

// noHostArithmetic is the error of a reduction that only devices have.
func noHostArithmetic(dtype DType, op ReduceOp) error {
	return fmt.Errorf("%w: %v of %v on the CPU; only devices have its arithmetic", errors.ErrUnsupported, op, dtype)
}

// float8Identity is the identity of a reduce op in the bits of an eight-bit float.
// E4M3 has no infinity: its largest number takes the place.
func float8Identity(dtype DType, op ReduceOp, negative bool) byte {
	const sign = 0x80
	one, most := byte(0x38), byte(0x7e) // 1, 448
	if dtype == Float8E5M2 {
		one, most = 0x3c, 0x7c // 1, infinity
	}
	switch op {
	case Product:
		return one
	case Min:
		return most
	case Max:
		return sign | most
	case PreMulSum:
		if negative {
			return 0 // times a negative factor it is -0
		}
	}
	return sign // -0, as for the other floats
}
