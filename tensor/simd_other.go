//go:build !amd64

package tensor

// hasKernels: the portable loops are all there is here.
func hasKernels() bool { return false }

// kernel does nothing: the portable loops do.
func kernel[T integer | float32 | float64](ReduceOp, []T, []T, []T) bool { return false }

func kernelScale[T integer | float32 | float64]([]T, T, bool) int { return 0 }

func kernelAddScaled[T float32 | float64]([]T, []T, T) bool { return false }

func kernelWiden(DType, []float32, []uint16) int { return 0 }

func kernelAddWide(DType, []float32, []uint16) int { return 0 }

func kernelRound(DType, []uint16, []float32) int { return 0 }
