package tensor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUndefined is returned for a reduction that no processor could do: the dtype
// does not take the reduce op, or sizes do not go together.
var ErrUndefined = errors.New("tensor: undefined reduction")

// ReduceOp says how elements of several ranks become one.
type ReduceOp uint8

// The reduce ops of torch.distributed. Which dtypes each takes is
// DType.Reduces's business.
const (
	Sum ReduceOp = iota
	Avg          // Sum divided by Op.Divisor (the world size if that is 0)
	Product
	Min
	Max
	BAnd
	BOr
	BXor
	PreMulSum // each rank's elements times Op.Factor (equal on all ranks), then Sum
	reduceOpCount
)

var reduceOpNames = [reduceOpCount]string{
	Sum: "sum", Avg: "avg", Product: "product", Min: "min", Max: "max",
	BAnd: "band", BOr: "bor", BXor: "bxor", PreMulSum: "premul-sum",
}

// String is the reduce op as messages name it: "sum".
func (o ReduceOp) String() string {
	if o >= reduceOpCount {
		return fmt.Sprintf("reduce-op(%d)", uint8(o))
	}
	return reduceOpNames[o]
}

// Valid tells whether o is one of the reduce ops above.
func (o ReduceOp) Valid() bool { return o < reduceOpCount }

// ReduceOps lists every valid reduce op.
func ReduceOps() []ReduceOp {
	all := make([]ReduceOp, 0, reduceOpCount)
	for o := Sum; o < reduceOpCount; o++ {
		all = append(all, o)
	}
	return all
}

// ParseReduceOp reads the name of a reduce op, without regard to case: those of String,
// torch's ("SUM", "PREMUL_SUM") and Lightning's "mean", which is Avg.
func ParseReduceOp(name string) (ReduceOp, error) {
	lower := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if lower == "mean" {
		return Avg, nil
	}
	if i := slices.Index(reduceOpNames[:], lower); i >= 0 {
		return ReduceOp(i), nil
	}
	return 0, fmt.Errorf("tensor: reduce op %q, want one of mean, %s", name, strings.Join(reduceOpNames[:], ", "))
}
