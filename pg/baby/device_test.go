package baby

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// plainMemory is device memory that nobody can wait for.
type plainMemory struct{ tensor.DeviceMemory }

func (plainMemory) Device() tensor.Device   { return tensor.CUDA(0) }
func (plainMemory) NumBytes() int           { return 64 }
func (plainMemory) Address() uintptr        { return 4096 }
func (plainMemory) Export() ([]byte, error) { return []byte("handle"), nil }

// settledMemory is device memory of which it is counted how often it was waited for.
type settledMemory struct {
	plainMemory
	settled *int
	err     error
}

func (m settledMemory) Settle(limit time.Duration) error {
	*m.settled++
	if limit <= 0 {
		return errors.New("no time")
	}
	return m.err
}

// Without an Order an op on device memory waits on the host for the caller's work,
// and is refused, with what to do, where nobody can wait.
func TestDeviceWithoutOrder(t *testing.T) {
	t.Parallel()
	_, g := alone(t, Options{})
	submit := func(mem tensor.DeviceMemory) error {
		x, err := tensor.OnDevice(mem, tensor.Float32, 4)
		if err != nil {
			t.Fatal(err)
		}
		return g.AllReduceAsync(x, tensor.Sum).Wait(t.Context())
	}
	err := submit(plainMemory{})
	if !errors.Is(err, pg.ErrUnsupported) || !strings.Contains(err.Error(), "RegisterWith") {
		t.Errorf("memory that cannot be waited for: %v, want ErrUnsupported, and RegisterWith named", err)
	}
	settled, stuck := 0, errors.New("the stream stands still")
	if err := submit(settledMemory{plainMemory{}, &settled, stuck}); !errors.Is(err, stuck) || settled != 1 {
		t.Errorf("a stream that stands still: %v, asked %d times; want its error, asked once", err, settled)
	}
	err = submit(settledMemory{plainMemory{}, &settled, nil})
	if !errors.Is(err, pg.ErrUnsupported) || !strings.Contains(err.Error(), "of another process") || settled != 2 {
		t.Errorf("a stream that is through: %v; want the op in the child, whose backend refuses it", err)
	}
	if err := g.Barrier(t.Context()); err != nil {
		t.Errorf("the group after it: %v", err)
	}
}
