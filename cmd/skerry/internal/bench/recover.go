package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// The envelope: the kernel closes a killed process's sockets within a
// millisecond, survivors abort, join and reconfigure within about ten, and the
// discarded step is made again: step time + some 10 ms, and up to one step more
// for the part of the step that was thrown away.

const (
	recoverKillEvery = 15                     // steps between two kills
	recoverStepTime  = 100 * time.Millisecond // long against all that is measured besides it
	recoverStop      = 10 * time.Second       // for the demo to clean up once it is told to end
)

// demoResult is what `skerry demo --json` prints, as far as it is needed here.
type demoResult struct {
	Parity    bool    `json:"parity"`
	StepMs    float64 `json:"step_ms"`
	Goodput   float64 `json:"goodput"`
	RecoverMs struct {
		Samples []float64 `json:"samples"`
	} `json:"recover_ms"`
}

// runRecover measures, in the demo itself, SIGKILL to the last survivor's next
// commit.
func runRecover(ctx context.Context, o Options, emit emitFunc) error {
	worlds, kills := o.worlds(4), cmp.Or(o.Samples, 10)
	if o.Peers {
		o.note("not measured: torchft: a trainer of its own is needed, see docs/bench/README.md")
	}
	for _, n := range worlds {
		if n < 2 {
			return fmt.Errorf("n = %d, want at least 2: nobody would be left", n)
		}
	}
	for _, n := range worlds {
		r, err := runDemo(ctx, n, kills)
		if err != nil {
			return err
		}
		if !r.Parity {
			return fmt.Errorf("replicas differ after %d kills", kills)
		}
		p := Params{"n": n, "step_ms": r.StepMs, "goodput": r.Goodput}
		emit(Contest{Bench: "recover", Unit: "ms"}.row("skerry", p, r.RecoverMs.Samples))
	}
	return nil
}

// runDemo runs this binary's demo with that many kills.
func runDemo(ctx context.Context, n, kills int) (demoResult, error) {
	var r demoResult
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	steps := (kills + 1) * recoverKillEvery // the last interval sees the last victim back
	cmd := exec.CommandContext(ctx, self, "demo", "--json",
		"--replicas", strconv.Itoa(n), "--steps", strconv.Itoa(steps),
		"--kill-every", strconv.Itoa(recoverKillEvery), "--step-time", recoverStepTime.String())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = recoverStop
	var out, progress bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &progress
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("run %s: %w: %s", cmd, err, lastLine(progress.Bytes()))
	}
	if err := json.Unmarshal([]byte(lastLine(out.Bytes())), &r); err != nil {
		return r, fmt.Errorf("read the demo's result: %w", err)
	}
	return r, nil
}
