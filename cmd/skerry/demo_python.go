package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/examples/digits"
)

// The trainers of the demo.
const (
	trainerGo     = "go"
	trainerPython = "python"
)

// checkPython says what is missing for trainers in Python.
func checkPython(ctx context.Context) error {
	said, err := exec.CommandContext(ctx, "python3", "-c", "import skerry.demo").CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return fmt.Errorf("--trainer = python, want a python3 in PATH with the package skerry and torch: `python3 -c 'import skerry.demo'`: %w: %s",
		err, lines[len(lines)-1])
}

// trainInPython becomes a trainer of the package skerry, which tells what happens as a worker
// does; it does not return. It dies with the demo as every worker: the kernel's word survives exec.
func trainInPython(_ context.Context, a part) error {
	data, err := unix.MemfdCreate("digits.csv.gz", 0) // open beyond exec
	if err != nil {
		return fmt.Errorf("make a file for the data: %w", err)
	}
	if _, err := unix.Write(data, digits.Raw()); err != nil {
		return fmt.Errorf("write the data: %w", err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		return err
	}
	args := []string{
		"python3", "-m", "skerry.demo", "--name", a.Name, "--lighthouse", strings.Join(a.Lighthouses, ","),
		"--data", fmt.Sprintf("/proc/self/fd/%d", data), "--steps", fmt.Sprint(a.Demo.Steps), "--seed", fmt.Sprint(a.Demo.Seed),
		"--step-time", fmt.Sprint(a.Demo.StepTime.Seconds()), "--min-replicas", fmt.Sprint(a.Demo.MinReplicas),
		"--parity-every", fmt.Sprint(a.Demo.ParityEvery), "--timeout", fmt.Sprint(demoStepTimeout.Seconds()),
		"--heal-timeout", fmt.Sprint(demoHealTimeout.Seconds()),
	}
	return fmt.Errorf("run %s: %w", python, syscall.Exec(python, args, os.Environ()))
}
