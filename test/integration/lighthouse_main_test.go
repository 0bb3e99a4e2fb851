// Package integration runs the parts together in one process, over loopback:
// a lighthouse, managers, process groups, and faults between them.
package integration

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
)

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise: they
// wait for timeouts of the default rules rather than compute.
const testsAtOnce = 4

func TestMain(m *testing.M) {
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m)
}
