// Package gpu gives a replica of package digits an NVIDIA GPU to average gradients on: a
// group that has NCCL for tensors of the GPU, and TCP for everything else.
//
//	func main() {
//		gpu.Register()
//		baby.Init()
//		g, err := gpu.Open(gpu.Options{Baby: true}) // before manager.New
//		cfg := manager.Config{Backend: g.Backend, …}
//		d := digits.Config{Alloc: g.Alloc, …}
//		…
//		err = g.Close() // when the manager has closed
//	}
//
// TCP carries what NCCL has no verb for, the ballot above all, and learns of a death in
// milliseconds: that breaks both, so that no replica waits in NCCL for a dead one.
package gpu

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/nccl"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

// Options say which GPU, and how it is reached.
type Options struct {
	Index int  // of the GPU, among those of CUDA_VISIBLE_DEVICES
	Baby  bool // NCCL in a child, which may hang or crash without the trainer
	Log   zerolog.Logger

	// Paths of the libraries; empty: libnccl.so.2 and libcuda.so.1, where the system's
	// loader finds them.
	NCCL, CUDA string
}

// GPU is one of this process. Alloc is the trainer's; the rest is safe for concurrent use.
type GPU struct {
	// Backend is the replica's group; whoever has it closes it, before Close.
	Backend pg.Backend

	device *nccl.Device
	held   []*nccl.Buffer
}

var registered = sync.OnceValue(func() error {
	// A Baby without an Order waits on the host for the default stream, on which nothing
	// is: all copies to and from the GPU are waited for where they are made.
	return errors.Join(tcp.Register(), nccl.Register(), baby.Register(nccl.Name))
})

// Register makes the backends known, in the trainer and in a Baby's child. Call it at the
// start of main, before baby.Init.
func Register() error { return registered() }

// Open opens the GPU and a group over it, which is not configured yet.
func Open(o Options) (*GPU, error) {
	if err := Register(); err != nil {
		return nil, err
	}
	cuda, err := nccl.OpenCUDA(paths(o.CUDA)...)
	if err != nil {
		return nil, err
	}
	g := &GPU{}
	if g.device, err = nccl.OpenDevice(cuda, o.Index); err != nil {
		return nil, err
	}
	if err := g.open(o); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func paths(p string) []string {
	if p == "" {
		return nil
	}
	return []string{p}
}

// open makes the group.
func (g *GPU) open(o Options) (err error) {
	params := map[string]string{"nccl.device": strconv.Itoa(o.Index)}
	for name, path := range map[string]string{"nccl.library": o.NCCL, "nccl.cuda": o.CUDA} {
		if path != "" {
			params[name] = path
		}
	}
	list := "cpu:tcp,cuda:nccl"
	if o.Baby {
		list = "cpu:tcp,cuda:baby:nccl"
	}
	g.Backend, err = pg.Open(list, pg.Options{Params: params, Log: o.Log})
	return err
}

// Alloc makes a zeroed tensor on the GPU, which Close frees. It has the signature of
// ddp.Options.Alloc.
func (g *GPU) Alloc(dtype tensor.DType, shape ...int) (tensor.Tensor, error) {
	n, err := tensor.Elements(dtype, shape)
	if err != nil {
		return tensor.Tensor{}, err
	}
	bytes := max(n*dtype.Size(), 1)
	b, err := g.device.Alloc(bytes)
	if err != nil {
		return tensor.Tensor{}, fmt.Errorf("memory for gradients: %w", err)
	}
	g.held = append(g.held, b)
	if err := b.CopyFromHost(0, make([]byte, bytes)); err != nil {
		return tensor.Tensor{}, err
	}
	return tensor.OnDevice(b, dtype, shape...)
}

// Close frees the memory and lets go of the GPU, once Backend is closed.
func (g *GPU) Close() error {
	var err error
	for _, b := range g.held {
		err = errors.Join(err, b.Close())
	}
	g.held = nil
	return errors.Join(err, g.device.Close())
}
