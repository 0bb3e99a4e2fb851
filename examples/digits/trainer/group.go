package main

import (
	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/tcp"
)

// gpuOptions are the flags of a replica with a GPU.
type gpuOptions struct {
	how   string // one of gpuWays
	index int
}

// gpuWays are the values of -gpu.
func gpuWays() []string { return []string{"", "nccl", "baby:nccl"} }

// openGroup makes the replica's group, over TCP and, if o asks for one, a GPU. Close comes
// after the manager's, which closes the group.
func openGroup(o *options, cfg *manager.Config, log zerolog.Logger) (closeGPU func() error, err error) {
	if o.gpu.how == "" {
		cfg.Backend = tcp.New(tcp.Options{Logger: log})
		return func() error { return nil }, nil
	}
	return openGPU(o, cfg, log)
}
