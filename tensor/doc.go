// Package tensor has tensors over memory that the caller owns, and the
// reductions of their elements on the CPU.
//
// # Usage
//
//	grads := tensor.Of(slice)                     // 1-D, over a Go slice, without a copy
//	x := tensor.New(tensor.BFloat16, 128, 64)     // zeroed memory of its own
//	y, err := tensor.FromBytes(tensor.Int64, b, 3) // over bytes; they must be aligned
//	w, err := tensor.Over(d.Data(), d.Shape(), d.Strides()) // another library's: gorgonia, gonum
//	z, err := tensor.OnDevice(buffer, tensor.Float32, 1<<20)
//	err = g.AllReduce(ctx, grads, tensor.Avg)     // g is a *pg.Group
//
// A [Tensor] is a value: a [DType], a shape, strides and a [Device], and where
// the elements lie. Copying it copies the view. [Tensor.Slice], [Tensor.Flat],
// [Tensor.Reshape] and [Tensor.AsStrided] are other views of the same memory;
// [Slice] gives it back as a Go slice. Who may write to the memory when is not
// this package's matter; package pg says it for tensors of an op.
//
// # Dtypes
//
// [DTypes] are those of torch's collectives, under torch's names; their numbers
// go over the wire. Go has no 16-bit floats: [F16] and [BF16] are the element
// types of [Float16] and [BFloat16]. [DeviceDTypes] are moved by everyone and
// reduced on devices only.
//
// # Reductions
//
// [Reduce] folds inputs from the left, in the order given, in the accumulation
// type, and rounds once. Vector kernels (AVX2 on amd64) and portable loops give
// the same bits, so that a result does not depend on the processor. Which
// [ReduceOp] is defined for which dtype [DType.Reduces] tells; what is not
// defined is [ErrUndefined], and what only a device computes is
// errors.ErrUnsupported. [Identity] is what changes no result.
//
// # Cost
//
// Of and the views of 1-D tensors allocate nothing; nor do Reduce and Identity,
// which block only for the computation. Shape and Strides return copies:
// [Tensor.AppendShape] and [Tensor.NumDims] do without.
//
// # Concurrency
//
// Tensors are immutable and may be used from any goroutine; their elements are
// ordinary memory, with no lock. The package has no goroutines and no state.
//
// # Panics
//
// Slices, shapes and element types that are wrong in the program panic, as
// slicing and type assertions do; what can be wrong in data is an error.
package tensor
