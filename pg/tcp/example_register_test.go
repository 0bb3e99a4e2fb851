package tcp_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/tensor"
)

// A main registers the backends that it wants; Init then finds them by name. The four
// ranks are goroutines here, and meet by a file.
func ExampleRegister() {
	if !pg.Available(tcp.Name) { // an example may run twice in a process, a main does not
		if err := tcp.Register(); err != nil {
			log.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "meet")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	method := "file://" + filepath.Join(dir, "here") // or env://, or tcp://10.1.1.20:23456

	ctx := context.Background()
	worker := func(rank int) error {
		w, err := dist.Init(ctx, dist.InitConfig{Backend: "tcp", Method: fmt.Sprintf("%s?rank=%d&world_size=4", method, rank)})
		if err != nil {
			return err
		}
		pair, _, err := w.NewSubgroups(ctx, 2, pg.GroupOptions{})
		if err != nil {
			return errors.Join(err, w.Destroy())
		}
		x := []int64{int64(rank)}
		err = pair.AllReduce(ctx, tensor.Of(x), tensor.Sum)
		if rank == 3 {
			fmt.Println("ranks 2 and 3 make", x[0])
		}
		return errors.Join(err, w.Barrier(ctx), w.Destroy())
	}
	var ranks sync.WaitGroup
	for rank := range 4 {
		ranks.Go(func() {
			if err := worker(rank); err != nil {
				fmt.Println(err)
			}
		})
	}
	ranks.Wait()
	// Output: ranks 2 and 3 make 5
}
