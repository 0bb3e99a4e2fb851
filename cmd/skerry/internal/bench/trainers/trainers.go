// Package trainers is jobs that train, as far as a lighthouse can tell: each replica is a session
// that says what a manager says, by the rules of a member (quorum.Rank), and has neither
// gradients nor a process group. Replicas die, and others take their places.
//
//	t, err := trainers.Open(ctx, conns, trainers.Options{Jobs: 10, Each: 100, …})
//	defer t.Close()
//	err = t.Ready(ctx) // all members of each job stand in one quorum
//	m := t.Take()      // what was seen since the last call
//
// # Goroutines
//
// One for each job, which owns all its replicas, and one for each replica, which reads its
// stream. Close ends them, and waits until they have ended.
package trainers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/backoff"
)

// openLimit bounds the wait for the first quorum of each job.
const openLimit = 60 * time.Second

// Options say what trains.
type Options struct {
	Jobs, Each int           // jobs, and replicas of each
	Step       time.Duration // from one step of a job to its next
	// Between is the time from one death, of all jobs, to the next; halfway another replica
	// takes the place of the dead one. 0: all live.
	Between time.Duration
}

// Measured is what was seen in a time.
type Measured struct {
	Deaths, Joins []time.Duration // from the first word about it to the last member's next quorum
	Steps         int             // committed, of all jobs
	Beats         int             // sent
	Lost          int             // members whose session the lighthouse ended
}

// Trainers are the jobs. It is safe for concurrent use.
type Trainers struct {
	jobs    []*job
	stop    context.CancelFunc
	running sync.WaitGroup

	mu struct {
		sync.Mutex

		seen  Measured
		ready int // jobs whose replicas have all been in one quorum
		err   error
	}
}

// Open opens the sessions of all replicas over connections, and lets them train. The connections
// stay the caller's, to be closed behind Close.
func Open(ctx context.Context, conns []*grpc.ClientConn, o Options) (*Trainers, error) {
	t := &Trainers{}
	ctx, t.stop = context.WithCancel(context.WithoutCancel(ctx))
	var opening errgroup.Group
	for i := range o.Jobs {
		j := newJob(t, i, conns, o)
		t.jobs = append(t.jobs, j)
		opening.Go(func() error { return j.open(ctx) })
	}
	if err := opening.Wait(); err != nil {
		t.Close()
		return nil, err
	}
	for _, j := range t.jobs {
		t.running.Go(func() {
			if err := j.run(ctx); err != nil {
				t.fail(fmt.Errorf("job %s: %w", j.name, err))
			}
		})
	}
	return t, nil
}

func (t *Trainers) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.err = errors.Join(t.mu.err, err)
}

func (t *Trainers) saw(see func(*Measured)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	see(&t.mu.seen)
}

func (t *Trainers) met() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.ready++
}

// Ready waits until all replicas of each job have been in one quorum.
func (t *Trainers) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, openLimit, errors.New("not all jobs have a quorum of all their replicas"))
	defer cancel()
	for {
		t.mu.Lock()
		ready, err := t.mu.ready, t.mu.err
		t.mu.Unlock()
		if err != nil || ready == len(t.jobs) {
			return err
		}
		if err := backoff.Sleep(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d jobs train: %w", ready, len(t.jobs), err)
		}
	}
}

// Take returns what was seen since it was last called.
func (t *Trainers) Take() Measured {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.mu.seen
	t.mu.seen = Measured{}
	return m
}

// Failed is why a job has ended, or nil.
func (t *Trainers) Failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.err
}

// Names are the names of the jobs.
func (t *Trainers) Names() []string {
	var names []string
	for _, j := range t.jobs {
		names = append(names, j.name)
	}
	return names
}

// Close ends the sessions, and waits until they have.
func (t *Trainers) Close() {
	t.stop()
	t.running.Wait()
}
