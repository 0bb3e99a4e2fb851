package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/launch/internal/child"
	"github.com/skerry-ft/skerry/launch/internal/errorfile"
	"github.com/skerry-ft/skerry/launch/internal/gate"
	"github.com/skerry-ft/skerry/launch/internal/layout"
	"github.com/skerry-ft/skerry/launch/internal/output"
	"github.com/skerry-ft/skerry/launch/internal/sweep"
	"github.com/skerry-ft/skerry/store"
)

const (
	// abandonAfter is how long a rank that was killed may take to end. One that takes longer is
	// held in a call by the kernel, for a dead file server or GPU: the job goes on without.
	abandonAfter = 30 * time.Second
	// sweepLimit bounds the same of what ranks leave behind.
	sweepLimit = 10 * time.Second
	// drainLimit is how long the output of a rank is read after its end: what is left of it is
	// in the pipe, unless something that has escaped the sweep writes there.
	drainLimit = 2 * time.Second
	// reapLimit is how long ranks that were killed, of a start that was not whole, are waited for.
	reapLimit = 2 * time.Second
)

// attempt is one start of a replica, or of a spare: its store and its ranks. It is owned by the
// replica's goroutine; a spare's becomes another's, see Spares in the package's comment.
type attempt struct {
	*replica

	number int
	slot   int
	mark   string
	folder string     // for error files; empty: there is none
	logs   string     // for the ranks' output; empty: there is none
	port   int        // of the store
	gate   *gate.Gate // of a spare, or of what was one; else nil
	waited bool       // all ranks of the spare have waited for a place
	ranks  []*rank
	exits  chan *rank     // each exits once, for which it has room
	over   chan struct{}  // closed when the attempt has ended
	beside sync.WaitGroup // the store, and what waits for a rank's end

	serving context.Context // as long as the store is there
	stop    context.CancelFunc
}

// newAttempt makes the next start, of which nothing runs yet. finish must follow.
func (p *replica) newAttempt(ctx context.Context) *attempt {
	a := &attempt{
		replica: p, number: p.attempts, slot: p.slots.Take(p.slot),
		exits: make(chan *rank, p.cfg.Ranks), over: make(chan struct{}),
	}
	p.attempts++
	a.mark = fmt.Sprintf("%s.%s.%d", p.mark, p.key, a.number)
	a.serving, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	return a
}

// attempt starts the replica once, or goes on with what was a spare's start, and returns when that
// has ended: as finish does.
func (p *replica) attempt(ctx context.Context, warm *attempt) (*Failure, error) {
	if warm != nil {
		return warm.finish(ctx, nil)
	}
	a := p.newAttempt(ctx)
	return a.finish(ctx, a.begin())
}

// finish waits for the end of a start, of which err says why it is not whole: nil if all ranks ended
// with 0, else how the first that did not ended. Errors: *CommandError, as long as no replica
// of the run was ever started.
func (a *attempt) finish(ctx context.Context, err error) (*Failure, error) {
	var first *rank
	if err == nil {
		first = a.wait(ctx)
	}
	grace := time.Duration(0)
	if err == nil && first == nil && !a.isKilled() {
		grace = a.cfg.KillGrace // what is left may have something to write yet
	}
	a.end(grace)
	a.stop()
	a.beside.Wait()
	a.slots.Give(a.slot)
	failure := a.failed(first, err)
	if a.folder != "" {
		_ = os.RemoveAll(a.folder) // the run's folder goes at its end in any case
	}
	if e, ok := errors.AsType[*CommandError](err); ok && !a.begun.Load() {
		return nil, e
	}
	return failure, nil
}

// begin starts the store and the ranks. After an error some of them may run.
func (a *attempt) begin() (err error) {
	a.makeFolders()
	a.makeLogs()
	if err := a.serve(); err != nil {
		return fmt.Errorf("store of %s: %w", a.name, err)
	}
	if err := a.openGate(); err != nil {
		return err
	}
	pids := zerolog.Arr()
	for i := range a.cfg.Ranks {
		if err := a.start(i); err != nil {
			return err
		}
		pids.Int(a.ranks[i].proc.PID())
	}
	event := "replica started"
	if a.gate != nil {
		event = "spare started"
	}
	a.cfg.Log.Info().Str(logkey.ReplicaID, a.name).Int("attempt", a.number).Array("pids", pids).Msg(event)
	return nil
}

// makeFolders makes the folders for files of the ranks. A disk that is full, or a cleaner of
// temporary files that took the run's folder, is no reason not to train: there are none then.
func (a *attempt) makeFolders() {
	var err error
	a.folder = filepath.Join(a.run.folder, fmt.Sprintf("%s-%d", a.key, a.number))
	if a.run.folder == "" || os.Mkdir(a.folder, 0o700) != nil {
		if a.folder, err = os.MkdirTemp("", folderPattern); err != nil {
			a.folder = ""
			a.cfg.Log.Warn().Str(logkey.ReplicaID, a.name).Err(err).Msg("no folder for what ranks say of their end: exceptions will not be told")
		}
	}
}

// makeLogs makes the folder for the logs of this start.
func (a *attempt) makeLogs() {
	if a.cfg.LogDir == "" {
		return
	}
	var err error
	if a.logs, err = output.Folder(filepath.Join(a.cfg.LogDir, output.JobFolder(a.cfg.Job), a.name), a.number); err != nil {
		a.logs = ""
		a.cfg.Log.Warn().Str(logkey.ReplicaID, a.name).Err(err).Msg("no folder for logs: the ranks run without")
	}
}

// serve serves the store of this start.
func (a *attempt) serve() error {
	s, err := store.NewServer(store.ServerConfig{Listen: layout.Loopback + ":0", Log: zerolog.Nop()})
	if err != nil {
		return err
	}
	address, err := netip.ParseAddrPort(s.Addr())
	if err != nil {
		return errors.Join(err, s.Close())
	}
	a.port = int(address.Port())
	log, name := a.cfg.Log, a.name // a spare's name changes while it runs
	a.beside.Go(func() {
		if err := s.Run(a.serving); err != nil && a.serving.Err() == nil {
			log.Error().Str(logkey.ReplicaID, name).Err(err).Msg("store ended")
		}
	})
	return nil
}

// wait waits for the end of all ranks. The first that does not end well, and the end of ctx,
// end the others: SIGTERM, and SIGKILL after a while. It returns the first that did not end
// well, or that does not end at all.
func (a *attempt) wait(ctx context.Context) (first *rank) {
	told, killed := ctx.Done(), a.killed
	var late <-chan time.Time
	terminate := func(grace time.Duration) {
		a.signal(syscall.SIGTERM)
		told, late = nil, time.After(grace)
	}
	kill := func() {
		a.signal(syscall.SIGKILL)
		told, killed, late = nil, nil, time.After(abandonAfter)
	}
	for left := len(a.ranks); left > 0; {
		select {
		case one := <-a.exits:
			left--
			if left > 0 && len(a.exits) == 0 { // else it is done soon
				a.forget()
			}
			if first == nil && !one.proc.Status().OK() {
				first = one
				if told != nil {
					terminate(a.cfg.KillGrace)
				}
			}
		case <-told:
			order, _ := errors.AsType[stopped](context.Cause(ctx)) // nothing else ends it
			terminate(order.grace)
		case <-killed:
			kill()
		case <-late:
			switch held := a.held(); {
			case held == nil: // all have ended, and are to be taken
			case killed == nil: // the kernel holds what is left: see abandonAfter
				return cmp.Or(first, held)
			default:
				kill()
			}
		}
	}
	return first
}

// signal sends a signal to the ranks that run.
func (a *attempt) signal(s syscall.Signal) {
	for _, one := range a.ranks {
		one.proc.Signal(s)
	}
}

// held is the first rank that has not ended, if there is one.
func (a *attempt) held() *rank {
	for _, one := range a.ranks {
		if !one.ended() {
			return one
		}
	}
	return nil
}

// reap waits until ranks that were killed have ended, no longer than reapLimit.
func (a *attempt) reap() {
	limit := time.NewTimer(reapLimit)
	defer limit.Stop()
	for _, one := range a.ranks {
		select {
		case <-one.proc.Exited():
		case <-limit.C:
			return
		}
	}
}

// end ends what is left of the start, with SIGTERM first if there is a grace, and takes what
// was written.
func (a *attempt) end(grace time.Duration) {
	close(a.over)
	a.signal(syscall.SIGKILL) // of a start that was not whole
	sessions := make(sweep.Sessions)
	for _, one := range a.ranks {
		if began, there := a.sessions[one.proc.PID()]; there { // else it is empty
			sessions[one.proc.PID()] = began
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace+sweepLimit)
	defer cancel()
	left, err := sweep.End(ctx, sweep.Target{Mark: a.mark, Sessions: sessions}, grace)
	switch {
	case err != nil:
		a.cfg.Log.Warn().Str(logkey.ReplicaID, a.name).Int("attempt", a.number).Int("processes", left).Err(err).Msg("what the ranks left behind could not be ended")
	case left > 0:
		a.cfg.Log.Info().Str(logkey.ReplicaID, a.name).Int("attempt", a.number).Int("processes", left).Msg("what the ranks left behind was ended")
	}
	a.reap()
	for _, one := range a.ranks {
		a.release(one)
	}
	a.forget()
	if a.gate != nil {
		_ = a.gate.Close() // its sockets go with the folder
	}
}

// failed tells how the start ended: by the end of a rank, by an error before, or well.
func (a *attempt) failed(first *rank, err error) *Failure {
	f := &Failure{Replica: a.name, Attempt: a.number, At: time.Now()}
	switch {
	case err != nil:
		f.Rank, f.Message, f.how = len(a.ranks), err.Error(), child.Status{Code: 1}
	case first == nil:
		return nil
	default:
		f.Rank, f.PID, f.Tail, f.Log, f.Message = first.rank, first.proc.PID(), first.tail.Lines(), first.out().log, errorfile.Message(first.errorFile)
		if first.ended() {
			f.how = first.proc.Status()
		} else {
			f.how, f.Message = child.Status{Code: -1, Signal: syscall.SIGKILL}, "it was killed and does not end: the kernel holds it in a call"
		}
	}
	f.Status, f.Signal = f.how.Shell(), f.how.Signal
	return f
}
