package spawn

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Func is what a worker runs. Its ctx ends with SIGTERM or SIGINT. A returned
// error is written to standard error, and the process exits with status 1.
type Func func(ctx context.Context, w Worker) error

// Worker tells a Func who it is.
type Worker struct {
	Name      string
	Rank      int
	WorldSize int
	Args      []byte // what the parent gave, at most MaxArgsBytes
}

// MaxArgsBytes bounds Options.Args: they pass through a pipe before the worker
// starts to work.
const MaxArgsBytes = 1 << 20

// registry is package state by necessity: a re-executed process must find its
// function by name before main has run.
var registry struct {
	sync.Mutex

	funcs       map[string]Func
	initialised atomic.Bool
}

// envPipe tells a worker which descriptor carries its request. The parent
// keeps the other end open for as long as it lives.
const envPipe = "SKERRY_SPAWN_FD"

// pipeFD is that descriptor: the first of exec.Cmd.ExtraFiles.
const pipeFD = 3

// Register names a function that workers can run. It panics if the name is
// empty or taken: both are mistakes of the program.
func Register(name string, f Func) {
	registry.Lock()
	defer registry.Unlock()
	if name == "" || f == nil {
		panic("spawn: Register needs a name and a function")
	}
	if _, taken := registry.funcs[name]; taken {
		panic(fmt.Sprintf("spawn: function %q registered twice", name))
	}
	if registry.funcs == nil {
		registry.funcs = make(map[string]Func)
	}
	registry.funcs[name] = f
}

// Init turns a re-executed process into its worker and does not return in it.
// In any other process it returns at once. Call it after Register, before
// flags are parsed.
func Init() {
	registry.initialised.Store(true)
	if os.Getenv(envPipe) == "" {
		return
	}
	os.Exit(work())
}

// lookup finds a function, or tells what there is.
func lookup(name string) (Func, error) {
	registry.Lock()
	defer registry.Unlock()
	if f, ok := registry.funcs[name]; ok {
		return f, nil
	}
	return nil, fmt.Errorf("spawn: no function %q is registered (there are: %s)",
		name, strings.Join(slices.Sorted(maps.Keys(registry.funcs)), ", "))
}

// work is the life of a worker; it returns the exit status.
func work() int {
	os.Unsetenv(envPipe) // a worker's own children are not workers of our parent
	syscall.CloseOnExec(pipeFD)
	pipe := os.NewFile(pipeFD, "parent")
	dec := json.NewDecoder(pipe)
	var w Worker
	if err := dec.Decode(&w); err != nil {
		fmt.Fprintf(os.Stderr, "spawn: read request from parent: %v\n", err)
		return 1
	}
	go exitWithParent(pipe)
	f, err := lookup(w.Name)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
		err = f(ctx, w)
		stop()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s rank %d: %v\n", w.Name, w.Rank, err)
		return 1
	}
	return 0
}

// exitWithParent ends the process when the parent's end of the pipe closes.
// It runs until then: the process is its owner.
func exitWithParent(pipe *os.File) {
	_, _ = io.Copy(io.Discard, pipe) // however it ends
	fmt.Fprintln(os.Stderr, "spawn: parent is gone")
	os.Exit(1)
}
