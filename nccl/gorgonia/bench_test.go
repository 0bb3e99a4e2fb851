//go:build cuda && cgo

package gorgonia

import (
	"testing"

	"github.com/skerry-ft/skerry/nccl"
)

// What a call costs by cgo, and by what nccl.OpenCUDA loads at run time. The
// functions of the fake libcuda do next to nothing.
func BenchmarkCall(b *testing.B) {
	d := open(b)
	for name, driver := range map[string]nccl.Driver{"by=cgo": d, "by=purego": d.CUDA} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := driver.Devices(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
