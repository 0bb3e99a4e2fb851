// Package python runs programs of the Python package skerry.
package python

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/skerry-ft/skerry/internal/deathsig"
)

// name is the interpreter, which is looked for in PATH.
const name = "python3"

// Check says what is missing to run a module of the package.
func Check(ctx context.Context, module string) error {
	said, err := exec.CommandContext(ctx, name, "-c", "import "+module).CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return fmt.Errorf("want a %s in PATH with the package skerry and torch: `%s -c 'import %s'`: %w: %s", name, name, module, err, lines[len(lines)-1])
}

// Command runs a module of the package; it dies with this process, and by SIGKILL with ctx.
func Command(ctx context.Context, module string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, append([]string{"-m", module}, args...)...)
	cmd.SysProcAttr = deathsig.Attr()
	return cmd
}

// Become makes this process a module of the package; --data is where it finds data. It returns only an
// error. The process dies with its parent as before: the kernel's word survives exec.
func Become(module string, data []byte, args ...string) error {
	file, err := held(data)
	if err != nil {
		return err
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return err
	}
	args = append([]string{name, "-m", module, "--data", fmt.Sprintf("/proc/self/fd/%d", file)}, args...)
	return fmt.Errorf("run %s: %w", path, syscall.Exec(path, args, os.Environ()))
}
