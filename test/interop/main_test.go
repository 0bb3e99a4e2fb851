package interop

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built {
			path, _ := binary() // what it said was said before
			_ = os.RemoveAll(filepath.Dir(path))
		}
		os.Exit(code)
	}))
}
