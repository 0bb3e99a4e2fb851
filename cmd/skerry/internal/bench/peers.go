package bench

import (
	"bufio"
	"context"
	_ "embed" // the peers' programs
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed peers/gloo.py
var glooProgram []byte

//go:embed peers/openmpi.c
var openMPIProgram []byte

// peerEnd bounds how long a peer's processes are given to end by themselves.
const peerEnd = 20 * time.Second

// peer is a contestant made of foreign processes.
type peer struct {
	*lineClient

	impl string
	ops  []string // that it has
	dir  string
	in   io.Closer
	cmds []*exec.Cmd
}

// startPeers starts what is installed, and notes the command that failed for
// what is not.
func startPeers(ctx context.Context, o Options, n int) []Contestant {
	var all []Contestant
	for _, start := range []func(context.Context, int) (*peer, error){startGloo, startOpenMPI} {
		p, err := start(ctx, n)
		if err != nil {
			o.note("not measured: %v", err)
			continue
		}
		all = append(all, p)
	}
	return all
}

// startGloo runs PyTorch's Gloo, if a Python with torch is here.
func startGloo(ctx context.Context, n int) (*peer, error) {
	python, err := pythonWithTorch(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "skerry-gloo-")
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, "gloo.py")
	if err := os.WriteFile(program, glooProgram, 0o600); err != nil {
		return nil, err
	}
	var cmds []*exec.Cmd
	for rank := range n {
		cmds = append(cmds, exec.CommandContext(ctx, python, program,
			strconv.Itoa(rank), strconv.Itoa(n), filepath.Join(dir, "rendezvous")))
	}
	// Its Gloo has no reduce-scatter; all-to-all is the single-tensor form.
	return startPeer(&peer{impl: "gloo", dir: dir, ops: []string{opAllReduce, opAllGather, opAllToAll, opBroadcast, opNew}}, cmds)
}

// pythonWithTorch finds an interpreter that can import torch. SKERRY_PYTHON
// names one that is not on the usual paths.
func pythonWithTorch(ctx context.Context) (string, error) {
	var errs []error
	for _, python := range []string{os.Getenv("SKERRY_PYTHON"), "/usr/bin/python3", "python3"} {
		if python == "" {
			continue
		}
		cmd := exec.CommandContext(ctx, python, "-c", "import torch")
		out, err := cmd.CombinedOutput()
		if err == nil {
			return python, nil
		}
		errs = append(errs, fmt.Errorf("gloo: %s: %w: %s", cmd, err, lastLine(out)))
	}
	return "", errors.Join(errs...)
}

// startOpenMPI compiles and runs the C program, if mpicc and mpirun are here.
func startOpenMPI(ctx context.Context, n int) (*peer, error) {
	dir, err := os.MkdirTemp("", "skerry-mpi-")
	if err != nil {
		return nil, err
	}
	source, program := filepath.Join(dir, "openmpi.c"), filepath.Join(dir, "openmpi")
	if err := os.WriteFile(source, openMPIProgram, 0o600); err != nil {
		return nil, err
	}
	compile := exec.CommandContext(ctx, "mpicc", "-O2", "-o", program, source)
	if out, err := compile.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("openmpi: %s: %w: %s", compile, err, lastLine(out))
	}
	run := exec.CommandContext(ctx, "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", strconv.Itoa(n), program)
	ops := []string{opAllReduce, opReduceScatter, opAllGather, opAllToAll, opBroadcast}
	return startPeer(&peer{impl: "openmpi", dir: dir, ops: ops}, []*exec.Cmd{run})
}

// startPeer starts the processes; the first one takes the tasks.
func startPeer(p *peer, cmds []*exec.Cmd) (*peer, error) {
	in, err := cmds[0].StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmds[0].StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.lineClient = in, newLineClient(jsonLines{in, bufio.NewScanner(out)})
	for _, cmd := range cmds {
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.WaitDelay = peerEnd
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: start %s: %w", p.impl, cmd, err), p.Close())
		}
		p.cmds = append(p.cmds, cmd)
	}
	return p, nil
}

// Impl names the peer.
func (p *peer) Impl() string { return p.impl }

// Has tells whether the peer has an op.
func (p *peer) Has(op string) bool { return slices.Contains(p.ops, op) }

// Close tells rank 0 to end, which ends all, and kills what is left later.
func (p *peer) Close() error {
	p.in.Close()
	kill := time.AfterFunc(peerEnd, func() {
		for _, cmd := range p.cmds {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // gone is as good
		}
	})
	defer kill.Stop()
	var errs []error
	for _, cmd := range p.cmds {
		if err := cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.impl, err))
		}
	}
	errs = append(errs, os.RemoveAll(p.dir))
	return errors.Join(errs...)
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
