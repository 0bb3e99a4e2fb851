package gpu

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// What a report says of the machine.
const (
	whatDevice  = "device"
	whatMemory  = "device memory"
	whatDriver  = "kernel driver"
	whatCUDA    = "CUDA driver API"
	whatNCCL    = "NCCL"
	whatLibNCCL = "libnccl"
	whatLibCUDA = "libcuda"
)

// look tells what the machine has.
func (r *rank) look(context.Context) error {
	handle, err := purego.Dlopen(r.Libraries.CUDA, purego.RTLD_NOW)
	if err != nil {
		return err
	}
	var name func(p *byte, n int32, device int32) int32
	var total func(n *uint64, device int32) int32
	var version func(v *int32) int32
	purego.RegisterLibFunc(&name, handle, "cuDeviceGetName")
	purego.RegisterLibFunc(&total, handle, "cuDeviceTotalMem_v2")
	purego.RegisterLibFunc(&version, handle, "cuDriverGetVersion")
	text, bytes, v := make([]byte, 256), uint64(0), int32(0)
	device := int32(r.dev.Index())
	if code := name(unsafe.SliceData(text), int32(len(text)), device); code != 0 {
		return fmt.Errorf("cuDeviceGetName: %d", code)
	}
	if code := total(&bytes, device); code != 0 {
		return fmt.Errorf("cuDeviceTotalMem_v2: %d", code)
	}
	if code := version(&v); code != 0 {
		return fmt.Errorf("cuDriverGetVersion: %d", code)
	}
	n, _, _ := strings.Cut(string(text), "\x00")
	kernel := "unknown"
	if b, err := os.ReadFile("/proc/driver/nvidia/version"); err == nil {
		kernel, _, _ = strings.Cut(string(b), "\n")
	}
	for what, value := range map[string]string{
		whatDevice: n, whatMemory: fmt.Sprintf("%d MiB", bytes>>20), whatDriver: kernel,
		whatCUDA: fmt.Sprintf("%d.%d", v/1000, v%1000/10), whatNCCL: r.lib.Version().String(),
		whatLibNCCL: r.Libraries.NCCL, whatLibCUDA: r.Libraries.CUDA,
	} {
		r.say(record{What: what, Value: value})
	}
	return nil
}

// What the machine has is in every rank's reach.
func TestLook(t *testing.T) {
	o := start(t, "look")
	o.succeed(t)
	for _, rec := range o.records {
		if rec.Value == "" {
			t.Errorf("rank %d: no %s", rec.Rank, rec.What)
		}
		if rec.Rank == 0 {
			t.Logf("%s: %s", rec.What, rec.Value)
			results.note(rec.What, rec.Value)
		}
	}
	if len(o.records) != 7**ranks {
		t.Errorf("%d records of %d ranks, want 7 of each", len(o.records), *ranks)
	}
}
