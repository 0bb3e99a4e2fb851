//go:build !linux

package goodput

import (
	"errors"
	"syscall"
)

// errNoFabric is what partitions end with here.
var errNoFabric = errors.New("--faults = partition, want Linux, for network namespaces, or other faults: kill,stop")

// fabric is what connects processes on Linux.
type fabric struct{}

func mayPartition() error { return errNoFabric }

func apart(*syscall.SysProcAttr) {}

func newFabric(int, int) (*fabric, error) { return nil, errNoFabric }

func (*fabric) address(int) string  { return "" }
func (*fabric) plug(int, int) error { return errNoFabric }
func (*fabric) cut(int) error       { return errNoFabric }
func (*fabric) mend(int) error      { return errNoFabric }
