//go:build cuda && cgo

package gorgonia

import (
	"errors"
	"reflect"

	"github.com/skerry-ft/skerry/nccl"
)

// check gives cu's error the form of nccl's. cu does not export the type of its
// result codes, which is an int.
func check(function string, err error) error {
	if err == nil {
		return nil
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		if v := reflect.ValueOf(cause); v.Kind() == reflect.Int {
			return &nccl.CUDAError{Func: function, Code: int32(v.Int()), Name: cause.Error()}
		}
	}
	return &nccl.CUDAError{Func: function, Code: unknownCode, Name: err.Error()}
}

// unknownCode is CUDA_ERROR_UNKNOWN.
const unknownCode = 999
