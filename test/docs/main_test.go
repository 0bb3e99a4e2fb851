package docs

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// builds are the programs that readers run.
var builds testkit.Builds

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		if err := builds.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = max(status, 1)
		}
		os.Exit(status)
	}))
}

// programs are those of this module that pages name, by their folder.
var programs = []string{"cmd/lighthouse", "cmd/skerry", "examples/digits/trainer", "examples/own"}

// root is this module's folder.
const root = "../.."
