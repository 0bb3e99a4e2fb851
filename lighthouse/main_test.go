package lighthouse

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// How many tests run at a time, unless -parallel says otherwise. They wait for
// elections and timeouts rather than compute, so the usual number, that of the
// processors, leaves the machine idle; more than these upset one another's
// elections.
const (
	testsAtOnce     = 8
	testsAtOnceRace = 4
)

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if n := testsAtOnce; !given {
		if raceDetector {
			n = testsAtOnceRace
		}
		if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	goleak.VerifyTestMain(m)
}
