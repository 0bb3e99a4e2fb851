//go:build cuda && cgo

package gorgonia_test

import (
	"context"
	"fmt"
	"log"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/skerry-ft/skerry/nccl"
	"github.com/skerry-ft/skerry/nccl/gorgonia"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
)

// What cu has allocated takes part in a collective as it is. This group has one
// rank, so that it adds nothing; see examples/digits for how ranks find one
// another.
func Example() {
	lib, err := nccl.OpenLibrary()
	if err != nil {
		log.Fatal(err)
	}
	driver, err := gorgonia.Open()
	if err != nil {
		log.Fatal(err)
	}
	dev, err := nccl.OpenDevice(driver, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	// As gorgonia does: in the context of the device, on this thread.
	ctx := driver.Context(0)
	if err := ctx.Lock(); err != nil {
		log.Fatal(err)
	}
	defer ctx.Unlock()
	gradients := []float32{1, 2, 3, 4}
	bytes := int64(len(gradients)) * 4
	p, err := cu.MemAlloc(bytes)
	if err != nil {
		log.Fatal(err)
	}
	defer cu.MemFree(p)
	if err := cu.MemcpyHtoD(p, unsafe.Pointer(&gradients[0]), bytes); err != nil {
		log.Fatal(err)
	}

	buf, err := dev.Wrap(nccl.Pointer(p), int(bytes))
	if err != nil {
		log.Fatal(err)
	}
	x, err := tensor.OnDevice(buf, tensor.Float32, len(gradients))
	if err != nil {
		log.Fatal(err)
	}
	b, err := nccl.New(nccl.Options{Library: lib, Device: dev})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()

	server, err := store.NewServer(store.ServerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	serving, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(serving) }()
	defer func() { stop(); <-done }()
	group := pg.NewGroup(b)
	err = group.Configure(context.Background(), pg.Config{
		StoreAddress: server.Addr() + "/example/1", QuorumID: 1, ReplicaIDs: []string{"only"},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := group.AllReduce(context.Background(), x, tensor.Avg); err != nil {
		log.Fatal(err)
	}
	if err := cu.MemcpyDtoH(unsafe.Pointer(&gradients[0]), p, bytes); err != nil {
		log.Fatal(err)
	}
	fmt.Println(gradients)
	// Output: [1 2 3 4]
}
