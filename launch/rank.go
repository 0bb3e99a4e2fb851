package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/launch/internal/child"
	"github.com/skerry-ft/skerry/launch/internal/layout"
	"github.com/skerry-ft/skerry/launch/internal/output"
	"github.com/skerry-ft/skerry/launch/internal/sweep"
)

// rank is one process of an attempt.
type rank struct {
	proc      *child.Process
	rank      int
	began     uint64 // see sweep.Began
	tail      output.Tail
	errorFile string
	to        atomic.Pointer[outlet]
}

// outlet is where the lines of a rank go, beside the launcher's own output. It is not changed: what
// was a spare's rank gets another.
type outlet struct {
	prefix string
	file   *output.File // nil: none
	log    string       // its path
}

// out is where the lines of the rank go.
func (one *rank) out() *outlet { return one.to.Load() }

// ended tells whether the process has ended.
func (one *rank) ended() bool {
	select {
	case <-one.proc.Exited():
		return true
	default:
		return false
	}
}

// start starts one rank.
func (a *attempt) start(i int) error {
	one, socket := &rank{rank: i}, ""
	if a.folder != "" {
		one.errorFile = filepath.Join(a.folder, fmt.Sprintf("rank-%d.json", i))
	}
	if a.gate != nil {
		socket = a.gate.Path(i)
	}
	a.label(one)
	vars := a.plan.Vars(a.place(), i, one.errorFile, socket)
	base := append(os.Environ(), a.cfg.Env...)
	proc, err := a.Launcher.ranks.Start(child.Spec{
		Command: a.cfg.Command, Dir: a.cfg.Dir, Env: a.plan.Environ(base, vars, a.mark),
		Stdout: a.sink(one, a.out), Stderr: a.sink(one, a.errs),
	})
	if err != nil {
		if file := one.out().file; file != nil {
			err = errors.Join(err, file.Close(drainLimit))
		}
		if permanent(err) {
			return &CommandError{a.cfg.Command[0], err}
		}
		return fmt.Errorf("start of %s rank %d: %w", a.name, i, err)
	}
	one.proc = proc
	a.begun.Store(true)
	a.ranks = append(a.ranks, one)
	one.began = sweep.Began(proc.PID())
	a.sessions[proc.PID()] = one.began
	a.keeper.Add(proc.PID(), one.began)
	a.beside.Go(func() {
		select {
		case <-proc.Exited():
			a.exits <- one
		case <-a.over:
		}
	})
	return nil
}

// place is what the start is in the job.
func (a *attempt) place() layout.Start {
	return layout.Start{Replica: a.index, Slot: a.slot, Replicas: int(a.total.Load()), Before: a.number, Port: a.port}
}

// permanent tells whether a command that could not be started never can be: all else, such as
// too many processes for the moment, may pass.
func permanent(err error) bool {
	for _, is := range []error{syscall.ENOENT, syscall.EACCES, syscall.ENOEXEC, syscall.ENOTDIR, exec.ErrNotFound, os.ErrPermission} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// label has the lines of a rank go where the start's do now, and returns where they went before:
// nil, if they did not. A rank whose log cannot be opened runs without.
func (a *attempt) label(one *rank) (before *outlet) {
	to := &outlet{prefix: output.Rank{Replica: a.name, Index: a.plan.Index(a.index), Rank: one.rank, Alone: a.cfg.Ranks == 1}.Prefix(a.cfg.Color)}
	if a.logs != "" {
		path := filepath.Join(a.logs, fmt.Sprintf("rank-%d.log", one.rank))
		file, err := output.OpenFile(path)
		if err != nil {
			a.cfg.Log.Warn().Str(logkey.ReplicaID, a.name).Int("rank", one.rank).Err(err).Msg("no log of a rank: it runs without")
		} else {
			to.file, to.log = file, path
		}
	}
	return one.to.Swap(to)
}

// sink takes the lines of a rank.
func (a *attempt) sink(one *rank, all *output.Writer) func(line []byte) {
	return func(line []byte) {
		one.tail.Add(line)
		to := one.out()
		if to.file != nil {
			to.file.Line(line)
		}
		if all != nil {
			all.Line(to.prefix, line)
		}
	}
}

// release takes what a rank has written last. One that has not ended is left to the keeper, and
// what it writes is lost.
func (a *attempt) release(one *rank) {
	a.Launcher.ranks.Forget(one.proc)
	if one.ended() {
		one.proc.Drain(drainLimit)
	}
	a.closeLog(one.out())
}

// closeLog closes the log of a rank, if it has one.
func (a *attempt) closeLog(to *outlet) {
	if to.file == nil {
		return
	}
	if err := to.file.Close(drainLimit); err != nil {
		a.cfg.Log.Warn().Str(logkey.ReplicaID, a.name).Err(err).Msg("log of a rank is not whole")
	}
}
