package hostile

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise. Each
// has victims of its own, in processes, and waits for deadlines rather than computes.
const testsAtOnce = 8

func TestMain(m *testing.M) {
	if options := os.Getenv(victimEnv); options != "" {
		if err := serveVictim(options); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		if err := builds.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(status)
	}))
}

// builds are programs that all tests of this package share.
var builds testkit.Builds
