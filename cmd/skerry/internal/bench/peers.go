package bench

import (
	"bufio"
	"context"
	_ "embed" // the peers' programs
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/worker"
	"github.com/skerry-ft/skerry/internal/deathsig"
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
	cmds []*exec.Cmd
}

// newPeer writes a peer's program into a folder of its own.
func newPeer(impl, name string, program []byte) (*peer, error) {
	dir, err := os.MkdirTemp("", "skerry-"+impl+"-")
	if err != nil {
		return nil, err
	}
	p := &peer{impl: impl, dir: dir}
	return p, os.WriteFile(p.path(name), program, 0o600)
}

// path is that of a file in the peer's folder.
func (p *peer) path(name string) string { return filepath.Join(p.dir, name) }

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
	p, err := newPeer("gloo", "gloo.py", glooProgram)
	if err != nil {
		return nil, err
	}
	var cmds []*exec.Cmd
	for rank := range n {
		cmds = append(cmds, exec.CommandContext(ctx, python, p.path("gloo.py"),
			strconv.Itoa(rank), strconv.Itoa(n), p.path("rendezvous")))
	}
	// Its Gloo has no reduce-scatter; all-to-all is the single-tensor form.
	p.ops = []string{opAllReduce, opAllGather, opAllToAll, opBroadcast, opNew}
	return p, p.start(cmds...)
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
	p, err := newPeer("openmpi", "openmpi.c", openMPIProgram)
	if err != nil {
		return nil, err
	}
	compile := exec.CommandContext(ctx, "mpicc", "-O2", "-o", p.path("openmpi"), p.path("openmpi.c"))
	if out, err := compile.CombinedOutput(); err != nil {
		os.RemoveAll(p.dir)
		return nil, fmt.Errorf("openmpi: %s: %w: %s", compile, err, lastLine(out))
	}
	p.ops = []string{opAllReduce, opReduceScatter, opAllGather, opAllToAll, opBroadcast}
	return p, p.start(exec.CommandContext(ctx, "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", strconv.Itoa(n), p.path("openmpi")))
}

// start starts the processes; the first one takes the tasks.
func (p *peer) start(cmds ...*exec.Cmd) error {
	in, err := cmds[0].StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmds[0].StdoutPipe()
	if err != nil {
		return err
	}
	p.lineClient = newLineClient(worker.Lines{In: in, Out: bufio.NewScanner(out)})
	for _, cmd := range cmds {
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = deathsig.Attr()
		cmd.SysProcAttr.Setpgid = true
		cmd.WaitDelay = peerEnd
		if err := cmd.Start(); err != nil {
			return errors.Join(fmt.Errorf("%s: start %s: %w", p.impl, cmd, err), p.Close())
		}
		p.cmds = append(p.cmds, cmd)
	}
	return nil
}

// Impl names the peer.
func (p *peer) Impl() string { return p.impl }

// Has tells whether the peer has an op.
func (p *peer) Has(op string) bool { return slices.Contains(p.ops, op) }

// Close tells rank 0 to end, which ends all, and kills what is left later.
func (p *peer) Close() error {
	p.In.Close()
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
