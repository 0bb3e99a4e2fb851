//go:build !amd64

package pg

// hasKernels: the portable loops are all there is here.
func hasKernels() bool { return false }

// kernel does nothing: the portable loops do.
func kernel[T integer | float32 | float64](ReduceOp, []T, []T, []T) int { return 0 }

func kernelScale[T integer | float32 | float64]([]T, T, bool) int { return 0 }
