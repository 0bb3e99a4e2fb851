//go:build skerry_static

package main

import (
	"errors"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/manager"
)

// errStatic is what --gpu returns in the trainer of the images. Opening NCCL's library takes the
// system's loader, and an image that has neither a loader nor a C library needs a static program.
var errStatic = errors.New("--gpu: this trainer is built with the tag skerry_static, without NCCL; want one built without the tag")

func registerGPU() error { return nil }

func openGPU(*options, *manager.Config, zerolog.Logger) (func() error, error) {
	return nil, errStatic
}
