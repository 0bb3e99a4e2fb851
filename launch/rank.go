package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/launch/internal/child"
	"github.com/skerry-ft/skerry/launch/internal/layout"
	"github.com/skerry-ft/skerry/launch/internal/output"
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
	one := &rank{rank: i, errorFile: filepath.Join(a.folder, fmt.Sprintf("rank-%d.json", i))}
	if a.logs != "" {
		one.log = filepath.Join(a.logs, fmt.Sprintf("rank-%d.log", i))
		var err error
		if one.file, err = output.OpenFile(one.log); err != nil {
			return fmt.Errorf("log of %s rank %d: %w", a.name, i, err)
		}
	}
	vars := a.plan.Vars(layout.Start{Replica: a.index, Replicas: int(a.wanted.Load()), Before: a.number, Port: a.port}, i, one.errorFile)
	base := append(os.Environ(), a.cfg.Env...)
	proc, err := child.Start(child.Spec{
		Command: a.cfg.Command, Dir: a.cfg.Dir, Env: a.plan.Environ(base, vars, a.mark),
		Stdout: a.sink(one, a.out), Stderr: a.sink(one, a.errs),
	})
	if err != nil {
		if one.file != nil {
			err = errors.Join(err, one.file.Close())
		}
		return &CommandError{a.cfg.Command[0], err}
	}
	one.proc = proc
	a.ranks = append(a.ranks, one)
	a.keeper.Add(proc.PID())
	a.Launcher.mu.Lock()
	a.Launcher.mu.ranks[proc] = struct{}{}
	a.Launcher.mu.Unlock()
	return nil
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

// release takes what a rank has written last. One that has not ended, or has left behind what
// does not, is left to the keeper, and what it writes is lost.
func (a *attempt) release(one *rank, clean bool) {
	a.Launcher.mu.Lock()
	delete(a.Launcher.mu.ranks, one.proc)
	a.Launcher.mu.Unlock()
	if one.ended() {
		one.proc.Drain(drainLimit)
		if clean {
			a.keeper.Remove(one.proc.PID())
		}
	}
	if one.file == nil {
		return
	}
	if err := one.file.Close(); err != nil {
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
