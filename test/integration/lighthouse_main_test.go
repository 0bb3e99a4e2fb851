// Package integration runs the parts together in one process, over loopback:
// a lighthouse, managers, process groups, and faults between them.
package integration

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
