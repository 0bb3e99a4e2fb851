package keeper

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/internal/spool"
)

// variable has the mark, in the keeper's own process.
const variable = "SKERRY_RUN_KEEPER"

// sayLimit bounds how long what went wrong is said: what reads it may be stopped.
const sayLimit = 2 * time.Second

// initialised says that Init was called: else the keeper's process would run the whole
// program again.
var initialised atomic.Bool

// Init turns the keeper's process into the keeper, and does not return in it. In any other
// process it returns at once.
func Init() {
	initialised.Store(true)
	mark := os.Getenv(variable)
	if mark == "" {
		return
	}
	// Whatever ends the launcher's group of processes is not to end this one.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	err := keep(os.Stdin, mark)
	if len(os.Args) > 1 && os.Args[1] != "" {
		err = errors.Join(err, os.RemoveAll(os.Args[1]))
	}
	if err != nil {
		said := spool.New(os.Stderr)
		fmt.Fprintln(said, "skerry keeper:", err)
		_, _, _ = said.Close(sayLimit) // the launcher waits for this process
		os.Exit(1)
	}
	os.Exit(0)
}
