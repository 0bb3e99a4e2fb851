//go:build !skerry_static

package main

import (
	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/examples/digits/gpu"
	"github.com/skerry-ft/skerry/manager"
)

// registerGPU makes the backends known that --gpu names.
func registerGPU() error { return gpu.Register() }

// openGPU makes a group over TCP and a GPU.
func openGPU(o *options, cfg *manager.Config, log zerolog.Logger) (closeGPU func() error, err error) {
	g, err := gpu.Open(gpu.Options{Index: o.gpu.index, Baby: o.gpu.how == "baby:nccl", Log: log})
	if err != nil {
		return nil, err
	}
	cfg.Backend, o.digits.Alloc = g.Backend, g.Alloc
	return g.Close, nil
}
