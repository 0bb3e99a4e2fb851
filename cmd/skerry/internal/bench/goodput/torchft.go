package goodput

import (
	"cmp"
	"context"
	_ "embed" // torchft's trainer
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/examples/digits"
)

//go:embed torchft.py
var torchftProgram []byte

// torchftImport bounds the look whether torchft is there; torch takes its time.
const torchftImport = 2 * time.Minute

// torchftPython is an interpreter that has torchft and torch: that of SKERRY_TORCHFT_PYTHON.
func torchftPython(ctx context.Context) ([]string, error) {
	python := cmp.Or(os.Getenv("SKERRY_TORCHFT_PYTHON"), "python3")
	ctx, cancel := context.WithTimeout(ctx, torchftImport)
	defer cancel()
	out, err := exec.CommandContext(ctx, python, "-c", "import torch, torchft").CombinedOutput()
	if err != nil {
		said := strings.Split(strings.TrimSpace(string(out)), "\n")
		return nil, fmt.Errorf("SKERRY_TORCHFT_PYTHON = %q, want a Python with torchft and torch: %w: %s", python, err, said[len(said)-1])
	}
	path, err := exec.LookPath(python)
	return []string{path}, err
}

// becomeTorchft makes this process torchft's lighthouse, or a replica under its Manager.
func becomeTorchft(_ context.Context, index int, a workerArgs, _ emitter) error {
	program, err := memfd("torchft.py", a.Program)
	if err != nil {
		return err
	}
	data, err := memfd("digits.csv.gz", digits.Raw())
	if err != nil {
		return err
	}
	args := append(a.Python, program, a.Name, a.Host, strings.Join(a.Servers, ","), data, fmt.Sprint(a.Step.Seconds()), strconv.Itoa(index), strconv.Itoa(a.Count))
	env := append(os.Environ(), "RUST_LOG=error", "OMP_NUM_THREADS=1")
	return fmt.Errorf("run %s: %w", a.Python[0], syscall.Exec(a.Python[0], args, env))
}
