package torchft_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
)

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise: they
// wait for deadlines and processes rather than compute.
const testsAtOnce = 6

func TestMain(m *testing.M) {
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m)
}
