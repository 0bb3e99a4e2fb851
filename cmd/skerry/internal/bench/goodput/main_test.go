package goodput

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/train/spawn"
)

func TestMain(m *testing.M) {
	beInterpreter()
	RegisterWorkers()
	spawn.Init() // does not return in a worker
	goleak.VerifyTestMain(m)
}

// interpreterSays is what beInterpreter writes to standard error.
const interpreterSays = "no torch on this machine"

// beInterpreter makes this program an interpreter that finds all modules and cannot run a program,
// if it is called as one: by TestLogOfTorchft.
func beInterpreter() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "-c":
		os.Exit(0)
	case len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "/proc/self/fd/"):
		fmt.Fprintln(os.Stderr, interpreterSays)
		os.Exit(1)
	}
}
