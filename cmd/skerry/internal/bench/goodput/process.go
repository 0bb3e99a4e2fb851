package goodput

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/eventline"
	"github.com/skerry-ft/skerry/train/spawn"
)

// process is one process of the run, in all its incarnations.
type process struct {
	name       string
	worker     string // that it is
	host       int    // of the fabric, and its rank
	generation int    // starts so far
	ends       int    // in a row that were not ordered, without a step between
	proc       *spawn.Process
	trains     bool // this incarnation has committed a step
	blow       *blow
}

// message is what a process said, or that it ended.
type message struct {
	from       *process
	generation int
	event      event
	exited     bool
	err        error
}

// start starts the next incarnation of p, and gives it its network.
func (r *run) start(p *process) error {
	p.generation++
	p.trains = false
	args, err := json.Marshal(r.args(p))
	if err != nil {
		return err
	}
	begin, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	generation := p.generation
	o := spawn.Options{Stdin: begin, Stdout: &eventline.Lines[event]{Each: func(e event) {
		if e.Kind != "" {
			r.send(message{from: p, generation: generation, event: e})
		}
	}}}
	if r.cfg.partitions() {
		o.Sys = apart
	}
	said, err := r.openLog(p)
	if err != nil {
		return errors.Join(err, begin.Close(), tell.Close())
	}
	o.Stderr = said
	started, err := spawn.Start(spawn.Worker{Name: p.worker, Rank: p.host, WorldSize: r.cfg.Replicas, Args: args}, o)
	if err = errors.Join(err, begin.Close()); err != nil {
		return errors.Join(err, tell.Close(), said.Close())
	}
	p.proc = started
	r.wg.Go(func() { // ends with the process, which end sees to
		<-started.Done()
		said.Close() //nolint:errcheck // what could not be written there is no reason to end the run
		r.send(message{from: p, generation: generation, exited: true, err: started.Wait(context.Background())})
	})
	if r.fabric != nil {
		err = r.fabric.plug(p.host, started.PID())
	}
	if err == nil {
		_, err = tell.Write([]byte{1})
	}
	return errors.Join(err, tell.Close())
}

// args are what a process is told.
func (r *run) args(p *process) workerArgs {
	a := workerArgs{
		Name: p.name, Mode: r.cfg.Mode, Step: r.cfg.Step, Seed: r.cfg.Seed, Count: r.cfg.Replicas,
		Host: "127.0.0.1", Apart: r.fabric != nil, Servers: r.addresses(),
	}
	if r.fabric != nil {
		a.Host, a.ShareDir = r.fabric.address(p.host), r.dir
	}
	if p.worker == serverWorker {
		a.DataDir = filepath.Join(r.dir, strconv.Itoa(p.host))
	}
	a.Log = r.logPath(p)
	if p.worker == torchftWorker {
		a.Python, a.Program = r.python, torchftProgram
	}
	return a
}

// logPath is the file for what p tells; "": none.
func (r *run) logPath(p *process) string {
	if r.cfg.LogDir == "" {
		return ""
	}
	return filepath.Join(r.cfg.LogDir, p.name+".log")
}

// openLog opens p's log for its standard error: all that torchft writes is there, and of our own
// workers what they write outside their logger, such as a panic.
func (r *run) openLog(p *process) (*os.File, error) {
	return os.OpenFile(cmp.Or(r.logPath(p), os.DevNull), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // it is for everyone
}

// addresses are those of the lighthouse's servers that have told theirs.
func (r *run) addresses() (all []string) {
	for _, a := range r.ready {
		if a != "" {
			all = append(all, a)
		}
	}
	return all
}

// send puts m into the inbox, unless that is read no more.
func (r *run) send(m message) {
	select {
	case r.inbox <- m:
	case <-r.over:
	}
}

// end kills what runs, and returns when all is gone.
func (r *run) end() error {
	close(r.over)
	for _, p := range r.processes() {
		if p.proc != nil {
			p.proc.Kill()
		}
	}
	r.wg.Wait()
	if err := os.RemoveAll(r.dir); err != nil {
		return fmt.Errorf("remove the lighthouse's data: %w", err)
	}
	return nil
}

// processes are all, replicas first.
func (r *run) processes() []*process {
	all := append([]*process{}, r.replicas...)
	all = append(all, r.servers...)
	if r.hub != nil {
		all = append(all, r.hub)
	}
	return all
}
