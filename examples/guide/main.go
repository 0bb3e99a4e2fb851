// Guide runs the programs that tutorials of torch.distributed begin with, over a plain
// world of processes, without a manager:
//
//	go run ./examples/guide basic      an all-reduce: init, a tensor of ones, its sum
//	go run ./examples/guide blocking   a send and a receive
//	go run ./examples/guide started    the same, started and waited for
//	go run ./examples/guide ring       an all-reduce made of sends and receives
//	go run ./examples/guide training   data-parallel training on a dataset that is dealt out
//
// Each rank is a process, which this one starts (package train/spawn); they meet in a file.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/train/spawn"
)

// program is what every rank of a world runs. It writes whole lines to out.
type program struct {
	ranks int
	rank  func(ctx context.Context, w *dist.World, out io.Writer) error
}

func programs() map[string]program {
	return map[string]program{
		"basic":    {2, basic},
		"blocking": {2, blocking},
		"started":  {2, started},
		"ring":     {4, ring},
		"training": {3, training},
	}
}

func main() {
	begin()
	names := slices.Sorted(maps.Keys(programs()))
	if len(os.Args) != 2 || !slices.Contains(names, os.Args[1]) {
		fmt.Fprintf(os.Stderr, "usage: guide %s\n", strings.Join(names, " | "))
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// begin does not return in a process that was started as a rank.
func begin() {
	for name, p := range programs() {
		spawn.Register(name, func(ctx context.Context, w spawn.Worker) error { return p.setup(ctx, w) })
	}
	spawn.Init()
}

// run starts the ranks of a program and waits for all; their lines go to out.
func run(ctx context.Context, name string, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "skerry-guide")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	method := "file://" + filepath.Join(dir, "meet")
	return spawn.Run(ctx, programs()[name].ranks, name, spawn.Options{Args: []byte(method), Stdout: &lines{out: out}})
}

// setup is init_process_group, the program, and destroy_process_group.
func (p program) setup(ctx context.Context, w spawn.Worker) error {
	if err := tcp.Register(); err != nil {
		return err
	}
	world, err := dist.Init(ctx, dist.InitConfig{
		Backend: tcp.Name, Method: string(w.Args), Rank: new(w.Rank), WorldSize: w.WorldSize,
	})
	if err != nil {
		return err
	}
	err = p.rank(ctx, world, os.Stdout)
	if err == nil {
		err = world.Barrier(ctx) // no rank leaves before all are done
	}
	return errors.Join(err, world.Destroy())
}

// lines lets the output of several processes go to one writer.
type lines struct {
	mu sync.Mutex

	out io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}
