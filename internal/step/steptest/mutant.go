package steptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// RunMutant runs go test, with args, of the package of the working directory with a
// change of one of its files: old, which must be there once, becomes fresh. The
// file itself stays as it is; dir is for what is needed on the way. It returns
// what the tests said, and an error if there is no saying whether they failed.
func RunMutant(dir, file, old, fresh string, args ...string) (string, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), old); n != 1 {
		return "", fmt.Errorf("%s has %d places to change, want 1: %q", file, n, old)
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, "mutant.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := errors.Join(
		os.WriteFile(changed, []byte(strings.Replace(string(source), old, fresh, 1)), 0o600),
		os.WriteFile(list, overlay, 0o600),
	); err != nil {
		return "", err
	}
	out, err := exec.Command("go", append([]string{"test", "-vet=off", "-overlay", list}, args...)...).CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return "", err
	}
	if strings.Contains(string(out), "[build failed]") {
		return "", fmt.Errorf("the mutant does not build:\n%s", out)
	}
	return string(out), nil
}
