package interop

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built {
			dir, _ := binaries() // what it said was said before
			_ = os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}
