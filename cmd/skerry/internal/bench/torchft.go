package bench

import (
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
)

//go:embed peers/torchft.py
var torchftProgram []byte

// startTorchft runs torchft's lighthouse, if SKERRY_TORCHFT names its extension
// module: scripts/interop fetches it.
func startTorchft(ctx context.Context, minReplicas int) (asked, error) {
	modules := filepath.SplitList(os.Getenv("SKERRY_TORCHFT"))
	if len(modules) == 0 {
		found, _ := filepath.Glob(filepath.Join(os.Getenv("HOME"), ".cache/skerry/torchft/*/torchft/_torchft*.so")) // the pattern is well formed
		modules = found
	}
	if len(modules) == 0 {
		return asked{}, errors.New("torchft: SKERRY_TORCHFT names no module, and scripts/interop has fetched none")
	}
	python := cmp.Or(os.Getenv("SKERRY_TORCHFT_PYTHON"), "python3")
	p, err := newPeer("torchft", "torchft.py", torchftProgram)
	if err != nil {
		return asked{}, err
	}
	cmd := exec.CommandContext(ctx, python, p.path("torchft.py"), modules[0], strconv.Itoa(minReplicas))
	// Its log says each call: what it costs to write, its operators pay too.
	cmd.Env = append(os.Environ(), "RUST_LOG=error")
	if err := p.start(cmd); err != nil {
		return asked{}, err
	}
	p.Out.Scan()
	u, err := url.Parse(p.Out.Text())
	if err == nil && u.Port() == "" {
		err = errors.New("want its address")
	}
	if err != nil {
		return asked{}, errors.Join(fmt.Errorf("torchft: %s said %q: %w", cmd, p.Out.Text(), err), p.Close())
	}
	return asked{impl: p.impl, addr: net.JoinHostPort("localhost", u.Port()), pid: cmd.Process.Pid, end: p.Close}, nil
}
