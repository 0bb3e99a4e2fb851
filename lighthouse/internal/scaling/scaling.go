// Package scaling is what a leader knows of how many replicas are wanted of a job, beside the
// number itself, which the ledger keeps: which launchers ask for it, and which of them wait.
//
// A launcher asks again as soon as it is answered, and an answer may wait for news, so that an
// order reaches all launchers at once. That they ask is how the leader knows of them: of a job
// that has none, such as one of torchrun's or Kubernetes', no order can be carried out.
package scaling

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/quorum"
)

const (
	// MaxHold is how long an answer may wait for news.
	MaxHold = 30 * time.Second
	// kept is how long a launcher counts as there after it has asked: it asks again within
	// MaxHold, a pause, and the time that a lighthouse without a leader costs it.
	kept = time.Minute
	// maxNodes bounds the launchers of a job.
	maxNodes = 4096
	// maxWaiting bounds the answers of a job that wait for news; others are given at once.
	maxWaiting = 256
	// maxOfCaller bounds the launchers that one address says there are.
	maxOfCaller = 64
)

// Query is a launcher's question.
type Query struct {
	Job    string
	From   string        // the address of who asks
	Node   int           // which of the job's launchers asks, from 0
	Nodes  int           // how many there are
	SeenMs int64         // AtMs of what it knows; 0: nothing
	Hold   time.Duration // how long the answer may wait for news
}

// QueryOf is the question that a message asks. Errors: quorum.ErrInvalid.
func QueryOf(req *skerrypb.WantedRequest) (Query, error) {
	q := Query{
		Job: req.GetJob(), Node: int(req.GetNode()), Nodes: int(req.GetNodes()), SeenMs: req.GetSeenAtMs(),
		Hold: min(time.Duration(req.GetHoldMs())*time.Millisecond, MaxHold),
	}
	if q.Nodes < 1 || q.Nodes > maxNodes || q.Node >= q.Nodes {
		return Query{}, fmt.Errorf("%w: node = %d of nodes = %d, want 0 up to nodes - 1, and at most %d nodes", quorum.ErrInvalid, q.Node, q.Nodes, maxNodes)
	}
	return q, nil
}

// Answer is what a launcher is told.
type Answer struct {
	api.Wanted // zero: no number was ever asked for, or the job has finished since

	Finished bool // all replicas of the job left in good order
	Idle     bool // none is here, and it has not finished
}

// Proto is the answer as a message.
func (a Answer) Proto() *skerrypb.WantedResponse {
	resp := &skerrypb.WantedResponse{Finished: a.Finished, Idle: a.Idle}
	if a.AtMs != 0 {
		resp.Wanted = &skerrypb.WantedReplicas{Replicas: uint32(a.Replicas), AtMs: a.AtMs, By: a.By, From: a.From, Reason: a.Reason}
	}
	return resp
}

// Board is where launchers of one job ask. It is safe for concurrent use.
type Board struct {
	wanted func() *api.Wanted // what the ledger keeps

	mu struct {
		monitor.Monitor // that there is another number

		asked   map[int]asked // by the launcher's node
		waiting int           // answers that wait for news
	}
}

// asked is the last question of a launcher.
type asked struct {
	at   time.Time
	from string
}

// New makes a board at which no launcher has asked yet; wanted reads the ledger.
func New(wanted func() *api.Wanted) *Board {
	b := &Board{wanted: wanted}
	b.mu.asked = make(map[int]asked)
	return b
}

// Await notes that a launcher asks, and returns what is wanted: at once if it does not know
// that, or too many wait, else when there is another number, when its hold is over, or when ctx ends.
func (b *Board) Await(ctx context.Context, q Query) api.Wanted {
	if !b.enter(q) {
		q.Hold = 0
	}
	var w api.Wanted
	look := func() bool {
		w = api.Wanted{}
		if now := b.wanted(); now != nil {
			w = *now
		}
		return w.AtMs != q.SeenMs || q.Hold <= 0
	}
	_ = b.mu.Await(ctx, q.Hold, look) // w is what is wanted in any case
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.waiting--
	b.noteLocked(q)
	return w
}

// enter notes that a launcher is there, and says whether it may wait.
func (b *Board) enter(q Query) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteLocked(q)
	b.mu.waiting++
	return b.mu.waiting <= maxWaiting
}

// noteLocked notes that a launcher is there, unless its address has named too many.
func (b *Board) noteLocked(q Query) {
	if _, known := b.mu.asked[q.Node]; !known {
		b.forgetLocked()
		of := 0
		for _, other := range b.mu.asked {
			if other.from == q.From {
				of++
			}
		}
		if of >= maxOfCaller {
			return
		}
	}
	b.mu.asked[q.Node] = asked{time.Now(), q.From}
}

// forgetLocked forgets launchers that have not asked of late.
func (b *Board) forgetLocked() {
	long := time.Now().Add(-kept)
	maps.DeleteFunc(b.mu.asked, func(_ int, a asked) bool { return a.at.Before(long) })
}

// Launchers is how many have asked of late.
func (b *Board) Launchers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetLocked()
	return len(b.mu.asked)
}

// Tell lets the launchers that wait look again.
func (b *Board) Tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.Broadcast()
}

// Order is a number that an operator asks for.
type Order struct {
	Replicas int
	Job      quorum.Status
	Name     string        // of the job
	Most     int           // replicas that a job may have
	Leads    time.Duration // for how long this server has led
}

// errNumber refuses a number of replicas.
var errNumber = errors.New("replicas")

// Check says why an order cannot be carried out. A leader that is new has not heard of all
// launchers yet, and takes the order. Errors: quorum.ErrInvalid; of gRPC's code
// FailedPrecondition.
func (b *Board) Check(o Order) error {
	least := max(o.Job.Config.MinReplicas, 1)
	most := o.Most
	if rule := o.Job.Config.MaxReplicas; rule > 0 {
		most = min(most, rule)
	}
	switch {
	case o.Replicas == 0: // takes the number back, which needs no launcher
		return nil
	case o.Replicas < least:
		return fmt.Errorf("%w: %w = %d, want %d or more: the job's min_replicas", quorum.ErrInvalid, errNumber, o.Replicas, least)
	case o.Replicas > most:
		return fmt.Errorf("%w: %w = %d, want %d at most: the job's max_replicas, or --max-replicas-per-job", quorum.ErrInvalid, errNumber, o.Replicas, most)
	case o.Job.State == quorum.JobFinished:
		return status.Errorf(codes.FailedPrecondition, "job %q has finished: its replicas left in good order; start it again with skerry run --replicas %d", o.Name, o.Replicas)
	case b.Launchers() == 0 && o.Leads >= kept:
		return status.Errorf(codes.FailedPrecondition, "job %q has no launcher: no skerry run of it has asked this lighthouse for %v; start, or drain, its replicas by what runs them", o.Name, kept)
	}
	return nil
}
