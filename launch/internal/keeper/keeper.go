package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/launch/internal/sweep"
)

// The pauses before a keeper that died is started again.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 10 * time.Second
)

// self is this binary: on Linux, whatever has become of its file.
func self() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// Keeper is the launcher's side. Add and Remove are safe for concurrent use; Run is called
// once.
type Keeper struct {
	mark   string
	folder string
	first  *process

	mu struct {
		sync.Mutex

		sessions sweep.Sessions
		pipe     *os.File // the end for writing; nil: there is no process
	}
}

// process is one keeper's process.
type process struct {
	cmd  *exec.Cmd
	pipe *os.File
}

// Start starts the keeper of what carries a mark, and of the launcher's folder of temporary
// files, which goes with it; empty: there is none. Run must follow.
func Start(mark, folder string) (*Keeper, error) {
	if !initialised.Load() {
		return nil, errors.New("call launch.Init() at the top of main or TestMain before a launcher runs")
	}
	k := &Keeper{mark: mark, folder: folder}
	k.mu.sessions = make(sweep.Sessions)
	var err error
	k.first, err = k.start()
	return k, err
}

// Run keeps a keeper until ctx ends; then it ends the keeper, which kills what is left, and
// waits for that.
func (k *Keeper) Run(ctx context.Context) error {
	pause := backoff.Backoff{First: firstPause, Most: mostPause}
	p := k.first
	for {
		stop := context.AfterFunc(ctx, func() { k.drop(p) })
		err := p.cmd.Wait()
		stop()
		k.drop(p)
		if ctx.Err() != nil {
			return err
		}
		for p = nil; p == nil; {
			if pause.Wait(ctx) != nil {
				return nil // the launcher ends, and has swept by itself
			}
			p, _ = k.start() // tried again
		}
	}
}

// start starts a process, and tells it all sessions.
func (k *Keeper) start() (*process, error) {
	binary, err := self()
	if err != nil {
		return nil, fmt.Errorf("find this binary, for the keeper: %w", err)
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe for the keeper: %w", err)
	}
	defer theirs.Close() //nolint:errcheck // the process has its own
	cmd := exec.Command(binary)
	cmd.Args = []string{"skerry-keeper", k.folder}
	cmd.Env = append(os.Environ(), variable+"="+k.mark)
	cmd.Stdin, cmd.Stderr = theirs, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the keeper: %w", err), ours.Close())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.pipe = ours
	for session, began := range k.mu.sessions {
		k.tellLocked('+', session, began)
	}
	return &process{cmd, ours}, nil
}

// drop closes the pipe of a process, at which it ends.
func (k *Keeper) drop(p *process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.pipe == p.pipe {
		k.mu.pipe = nil
		_ = p.pipe.Close() // all that was written is read or of no use
	}
}

// Add tells of a session that has begun, and when its leader has: see [sweep.Began].
func (k *Keeper) Add(session int, began uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.sessions[session] = began
	k.tellLocked('+', session, began)
}

// Remove tells of a session of which nothing is left.
func (k *Keeper) Remove(session int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.mu.sessions, session)
	k.tellLocked('-', session, 0)
}

// tellLocked writes a line, which the keeper reads at once. One that has died is told when it
// is started again.
func (k *Keeper) tellLocked(sign rune, session int, began uint64) {
	if k.mu.pipe != nil {
		_, _ = fmt.Fprintf(k.mu.pipe, "%c%d %d\n", sign, session, began) // see above
	}
}
