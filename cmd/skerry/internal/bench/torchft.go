package bench

import (
	"bufio"
	"cmp"
	"context"
	_ "embed" // the peer's program
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed peers/torchft.py
var torchftProgram []byte

// torchftServer is torchft's own lighthouse, in a process.
type torchftServer struct {
	addr string
	pid  int
	end  func() error
}

// startTorchft runs torchft's lighthouse, if SKERRY_TORCHFT names its extension
// module: scripts/interop fetches it.
func startTorchft(ctx context.Context, minReplicas int) (*torchftServer, error) {
	modules := filepath.SplitList(os.Getenv("SKERRY_TORCHFT"))
	if len(modules) == 0 {
		found, _ := filepath.Glob(filepath.Join(os.Getenv("HOME"), ".cache/skerry/torchft/*/torchft/_torchft*.so")) // the pattern is well formed
		modules = found
	}
	if len(modules) == 0 {
		return nil, errors.New("torchft: SKERRY_TORCHFT names no module, and scripts/interop has fetched none")
	}
	python := cmp.Or(os.Getenv("SKERRY_TORCHFT_PYTHON"), "python3")
	dir, err := os.MkdirTemp("", "skerry-torchft-")
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, "torchft.py")
	if err := os.WriteFile(program, torchftProgram, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, python, program, modules[0], strconv.Itoa(minReplicas))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = peerEnd
	// Its log says each call: what it costs to write, its operators pay too.
	cmd.Env = append(os.Environ(), "RUST_LOG=error")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("torchft: start %s: %w", cmd, err), os.RemoveAll(dir))
	}
	end := func() error {
		_ = in.Close() // it ends with its input
		kill := time.AfterFunc(peerEnd, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		return errors.Join(cmd.Wait(), os.RemoveAll(dir))
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	u, parseErr := url.Parse(strings.TrimSpace(line))
	if err = errors.Join(err, parseErr); err != nil {
		return nil, errors.Join(fmt.Errorf("torchft: %s said %q: %w", cmd, line, err), end())
	}
	return &torchftServer{addr: net.JoinHostPort("localhost", u.Port()), pid: cmd.Process.Pid, end: end}, nil
}
