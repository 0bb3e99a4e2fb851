package baddays

import (
	"fmt"
	"os"
	"sync"
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
		for _, dir := range made.folders {
			if err := os.RemoveAll(dir); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
		os.Exit(status)
	}))
}

// made are folders that tests of this package share.
var made struct {
	sync.Mutex

	folders []string
}

// removeAtEnd removes a folder when all tests are over.
func removeAtEnd(dir string) {
	made.Lock()
	defer made.Unlock()
	made.folders = append(made.folders, dir)
}
