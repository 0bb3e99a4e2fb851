package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	tail      output.Tail
	file      *output.File // nil: none
	log       string       // its path
	errorFile string
}

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
	one := &rank{rank: i}
	if a.folder != "" {
		one.errorFile = filepath.Join(a.folder, fmt.Sprintf("rank-%d.json", i))
	}
	if a.logs != "" {
		one.openLog(a)
	}
	vars := a.plan.Vars(layout.Start{Replica: a.index, Replicas: int(a.total.Load()), Before: a.number, Port: a.port}, i, one.errorFile)
	base := append(os.Environ(), a.cfg.Env...)
	proc, err := a.startRank(child.Spec{
		Command: a.cfg.Command, Dir: a.cfg.Dir, Env: a.plan.Environ(base, vars, a.mark),
		Stdout: a.sink(one, a.out), Stderr: a.sink(one, a.errs),
	})
	if err != nil {
		if one.file != nil {
			err = errors.Join(err, one.file.Close(drainLimit))
		}
		if permanent(err) {
			return &CommandError{a.cfg.Command[0], err}
		}
		return fmt.Errorf("start of %s rank %d: %w", a.name, i, err)
	}
	one.proc = proc
	a.begun.Store(true)
	a.ranks = append(a.ranks, one)
	began := sweep.Began(proc.PID())
	a.sessions[proc.PID()] = began
	a.keeper.Add(proc.PID(), began)
	return nil
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

// openLog opens the log of a rank, which runs without if that cannot be.
func (one *rank) openLog(a *attempt) {
	path := filepath.Join(a.logs, fmt.Sprintf("rank-%d.log", one.rank))
	var err error
	if one.file, err = output.OpenFile(path); err != nil {
		one.file = nil
		a.cfg.Log.Warn().Str(logkey.ReplicaID, a.name).Int("rank", one.rank).Err(err).Msg("no log of a rank: it runs without")
		return
	}
	one.log = path
}

// sink takes the lines of a rank.
func (a *attempt) sink(one *rank, to *output.Writer) func(line []byte) {
	prefix := output.Rank{Replica: a.name, Index: a.plan.Index(a.index), Rank: one.rank, Alone: a.cfg.Ranks == 1}.Prefix(a.cfg.Color)
	return func(line []byte) {
		one.tail.Add(line)
		if one.file != nil {
			one.file.Line(line)
		}
		if to != nil {
			to.Line(prefix, line)
		}
	}
}

// release takes what a rank has written last. One that has not ended is left to the keeper, and
// what it writes is lost.
func (a *attempt) release(one *rank) {
	a.Launcher.mu.Lock()
	delete(a.Launcher.mu.ranks, one.proc)
	a.Launcher.mu.Unlock()
	if one.ended() {
		one.proc.Drain(drainLimit)
	}
	if one.file == nil {
		return
	}
	if err := one.file.Close(drainLimit); err != nil {
		a.cfg.Log.Warn().Str(logkey.ReplicaID, a.name).Err(err).Msg("log of a rank is not whole")
	}
}

// logFolder makes the folder for the logs of a start: attempt-0, or the next that is free, so
// that a run keeps those of the run before.
func logFolder(replica string, attempt int) (string, error) {
	if err := os.MkdirAll(replica, 0o755); err != nil {
		return "", err
	}
	for ; ; attempt++ {
		path := filepath.Join(replica, fmt.Sprintf("attempt-%d", attempt))
		if err := os.Mkdir(path, 0o755); !errors.Is(err, os.ErrExist) {
			return path, err
		}
	}
}

// folderName is a job's name as that of a folder: it has letters, digits, dots and dashes.
func folderName(job string) string {
	if strings.Trim(job, ".") == "" {
		return "job" + job // "." and ".." are other folders
	}
	return job
}
