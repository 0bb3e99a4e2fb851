package gpu

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

//go:embed distributed.py
var torchScript []byte

// torch.distributed is measured in the same run, with the same sizes.
func TestTorch(t *testing.T) {
	if *torch == "" {
		const why = "no python with torch was given (-gpu.torch)"
		results.skipped("torch.distributed beside us", why)
		t.Skip(why)
	}
	results.follow(t, "torch.distributed beside us")
	dir := t.TempDir()
	script := filepath.Join(dir, "distributed.py") // not torch.py: that would be what it imports
	if err := os.WriteFile(script, torchScript, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var names, sizes []string
	for _, p := range patterns() {
		names = append(names, p.name)
	}
	for _, s := range sweep(*real) {
		sizes = append(sizes, fmt.Sprint(s))
	}
	cmds, outs := make([]*exec.Cmd, *ranks), make([]bytes.Buffer, *ranks)
	for i := range cmds {
		device := 0
		if *spread {
			device = i
		}
		cmds[i] = exec.CommandContext(ctx, *torch, script, fmt.Sprint(i), fmt.Sprint(*ranks), filepath.Join(dir, "store"),
			*backend, fmt.Sprint(device), strings.Join(names, ","), strings.Join(sizes, ","), fmt.Sprint(warmups), fmt.Sprint(iterations))
		cmds[i].Env = append(append(os.Environ(), environment(i)...), "GLOO_SOCKET_IFNAME=lo")
		cmds[i].Stdout, cmds[i].Stderr = &outs[i], os.Stderr
		if err := cmds[i].Start(); err != nil {
			cancel()
			t.Errorf("rank %d: %v", i, err)
			cmds = cmds[:i]
			break
		}
	}
	var all []record
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			cancel() // the others wait for this one
			t.Errorf("rank %d: %v", i, err)
		}
		all = append(all, records(t, &outs[i])...)
	}
	if t.Failed() {
		return
	}
	var measured []record
	for _, rec := range all {
		switch {
		case rec.What != "version":
			measured = append(measured, rec)
		case rec.Rank == 0:
			t.Log(rec.Value)
			results.note("torch.distributed", rec.Value)
		}
	}
	if len(measured) < 4*len(sizes)**ranks {
		t.Errorf("%d measurements, want at least %d", len(measured), 4*len(sizes)**ranks)
	}
	results.measured("torch.distributed", slowest(measured))
	results.passed("torch.distributed beside us", fmt.Sprintf("%d measurements", len(measured)))
}
