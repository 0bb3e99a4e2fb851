package hosts

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// patience bounds every wait; reaching it is a failure.
const patience = testkit.Patience

// start runs a program on a host. It is killed with the test.
func (f *fabric) start(t *testing.T, host int, env []string, name string, args ...string) *testkit.Program {
	t.Helper()
	return testkit.Start(t, fmt.Sprintf("host %d: %s", host, filepath.Base(name)), env,
		append([]string{"ip", "netns", "exec", f.name(host), name}, args...)...)
}
