package baddays

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
)

// testsAtOnce is how many jobs run at a time, unless -parallel says otherwise: they
// wait for suspicions and elections rather than compute.
const testsAtOnce = 5

func TestMain(m *testing.M) {
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		if err := errors.Join(builds.Remove(), clocks.Remove()); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(status)
	}))
}
