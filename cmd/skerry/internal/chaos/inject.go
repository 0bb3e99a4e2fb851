package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/faults"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/plan"
	"github.com/skerry-ft/skerry/internal/procs"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
)

// injected is a fault that was done.
type injected struct {
	at  time.Time
	how string
	// end ends what lasts; nil: nothing does.
	end func() error
}

// errMoved says that a process is not where it was a moment ago.
var errMoved = errors.New("its process has just ended, or moved; nothing was done")

// inject does a fault.
func (c *config) inject(ctx context.Context, s *site, f plan.Fault) (injected, error) {
	switch f.Kind {
	case plan.Kill:
		return c.kill(ctx, s, f)
	case plan.Stop:
		return stop(s, f)
	case plan.Rank:
		return killRank(s, f)
	case plan.Link:
		return cut(s, f)
	case plan.Disk:
		return c.fill(ctx)
	case plan.Lighthouse:
		if f.Leader == plan.Killed {
			return signal(s, s.leader, fmt.Sprintf("process %d, which leads at %v", s.leader.pid, s.leader.at))
		}
		return c.transfer(ctx)
	}
	return injected{}, fmt.Errorf("there is no fault %q", f.Kind)
}

// open opens the process at a place, and makes sure that it still is the one there.
func open(s *site, p place) (*procs.Handle, error) {
	h, err := procs.Open(p.pid)
	if err != nil {
		return nil, err
	}
	now, err := procs.Read()
	if err == nil && now.Listener(p.at) != p.pid {
		err = errMoved
	}
	if err != nil {
		h.Close()
		return nil, err
	}
	s.table = now
	return h, nil
}

// signal kills the process at a place.
func signal(s *site, p place, what string) (injected, error) {
	h, err := open(s, p)
	if err != nil {
		return injected{}, err
	}
	defer h.Close()
	at := time.Now()
	if err := h.Signal(syscall.SIGKILL); err != nil {
		return injected{}, fmt.Errorf("SIGKILL to process %d: %w", p.pid, err)
	}
	return injected{at: at, how: "SIGKILL to " + what}, nil
}

// kill ends a replica's process, here or through its manager.
func (c *config) kill(ctx context.Context, s *site, f plan.Fault) (injected, error) {
	if p := s.replica[f.Victim]; p.pid != 0 {
		return signal(s, p, fmt.Sprintf("process %d", p.pid))
	}
	at := time.Now()
	err := c.Call(ctx, func(ctx context.Context, l skerrypb.LighthouseClient) error {
		_, err := l.KillReplica(ctx, &skerrypb.KillReplicaRequest{Job: c.job, ReplicaId: f.Victim, Reason: c.reason()})
		return err
	})
	return injected{at: at, how: "killed through its manager"}, err
}

// killRank ends a process of a replica above rank 0.
func killRank(s *site, f plan.Fault) (injected, error) {
	of := s.replica[f.Victim]
	pid := s.table.Ranks(of.pid, of.at)[f.Rank]
	if pid == 0 {
		return injected{}, errMoved
	}
	h, err := procs.Open(pid)
	if err != nil {
		return injected{}, err
	}
	defer h.Close()
	now, err := procs.Read()
	if err != nil {
		return injected{}, err
	}
	if now.Listener(of.at) != of.pid || now.Ranks(of.pid, of.at)[f.Rank] != pid {
		return injected{}, errMoved
	}
	at := time.Now()
	if err := h.Signal(syscall.SIGKILL); err != nil {
		return injected{}, fmt.Errorf("SIGKILL to process %d: %w", pid, err)
	}
	return injected{at: at, how: fmt.Sprintf("SIGKILL to process %d", pid)}, nil
}

// stop stops a replica's process for a while.
func stop(s *site, f plan.Fault) (injected, error) {
	p := s.replica[f.Victim]
	h, err := open(s, p)
	if err != nil {
		return injected{}, err
	}
	stopped, err := faults.Stop(h, f.For)
	at := time.Now()
	if err != nil {
		h.Close()
		return injected{}, err
	}
	end := func() error {
		defer h.Close()
		return stopped.End()
	}
	return injected{at, fmt.Sprintf("SIGSTOP to process %d (kill -CONT %d ends it)", p.pid, p.pid), end}, nil
}

// links are a's connections to b on which no manager serves.
func links(s *site, a, b place) []procs.Conn {
	return s.table.Between(a.pid, b.pid, []uint16{a.at.Port(), b.at.Port()})
}

// cut ends the connections between two replicas on which no manager serves: those of the
// data plane.
func cut(s *site, f plan.Fault) (injected, error) {
	a, b := s.replica[f.Victim], s.replica[f.Peer]
	h, err := open(s, a)
	if err != nil {
		return injected{}, err
	}
	defer h.Close()
	between := links(s, a, b)
	if len(between) == 0 {
		return injected{}, errors.New("no data connection is between them now")
	}
	at := time.Now()
	done, err := shut(between, h.Shutdown)
	if err != nil {
		return injected{}, err
	}
	return injected{at: at, how: fmt.Sprintf("%s between processes %d and %d ended", cli.Plural(done, "connection"), a.pid, b.pid)}, nil
}

// shut ends connections, and says how many: those that have just ended are passed over. It is
// an error if none was left.
func shut(links []procs.Conn, end func(procs.Conn) error) (done int, err error) {
	var problems []error
	for _, link := range links {
		if err := end(link); err != nil {
			problems = append(problems, err)
			continue
		}
		done++
	}
	if done == 0 {
		return 0, errors.Join(problems...)
	}
	return done, nil
}

// fill fills the folder.
func (c *config) fill(ctx context.Context) (injected, error) {
	at := time.Now()
	full, err := faults.Fill(ctx, c.diskPath, c.diskMiB<<20)
	if err != nil {
		return injected{}, err
	}
	how := fmt.Sprintf("%d MiB in %s", full.Bytes>>20, c.diskPath)
	if full.Whole {
		how += ", where nothing more fits"
	}
	return injected{at, how, full.End}, nil
}

// transfer hands the leadership on.
func (c *config) transfer(ctx context.Context) (injected, error) {
	how, at := "leadership handed on", time.Now()
	err := c.Cluster(ctx, func(ctx context.Context, client *cluster.Client) error {
		if err := client.TransferLeader(ctx, "", "skerry chaos"); err != nil {
			return err
		}
		m, err := client.Members(ctx) // waits for the next leader
		i := slices.IndexFunc(m.Members, func(s cluster.Member) bool { return s.Leader })
		if err == nil && i >= 0 {
			how = "leadership handed to " + m.Members[i].Addr
		}
		return nil // the fault is done, whether or not it can be told to whom
	})
	return injected{at: at, how: how}, err
}

// finish ends what lasts.
func (i injected) finish() error {
	if i.end == nil {
		return nil
	}
	if err := i.end(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
