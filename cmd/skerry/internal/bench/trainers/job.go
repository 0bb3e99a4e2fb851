package trainers

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// beatTurn is how often a job looks which beats are due.
const beatTurn = 10 * time.Millisecond

// witnesses is how many members lose their link to one that dies: its neighbours of a ring.
const witnesses = 2

// change is one under way: a death or a join.
type change struct {
	dies  bool
	began time.Time // zero: none is under way, or no member has said a word about it yet
}

// job is one job's replicas. It is owned by its goroutine.
type job struct {
	all      *Trainers
	name     string
	conns    []*grpc.ClientConn
	o        Options
	first    time.Duration // until the first death
	draw     *rand.Rand
	inbox    chan said
	interval time.Duration // between two beats of a replica
	members  []*member     // those that live
	missing  []string      // names of the dead whose places are free
	started  int
	change   change
	met      bool
	beaten   time.Time
	owed     float64 // beats
	turn     int
}

func newJob(t *Trainers, i int, conns []*grpc.ClientConn, o Options) *job {
	name := fmt.Sprintf("job-%02d", i)
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // a hash takes all
	return &job{
		all: t, name: name, conns: conns, o: o, first: time.Duration(i+1) * o.Between,
		draw: rand.New(rand.NewPCG(h.Sum64(), 14)), inbox: make(chan said),
	}
}

// open opens all sessions, and then lets all join: the first quorum is of all.
func (j *job) open(ctx context.Context) error {
	for i := range j.o.Each {
		if err := j.start(ctx, fmt.Sprintf("replica-%d", i)); err != nil {
			return err
		}
	}
	return nil
}

// start opens a session of a replica of that name.
func (j *job) start(ctx context.Context, name string) error {
	j.started++
	id := quorum.ReplicaID(fmt.Sprintf("%s:%08x-0000-4000-8000-%012d", name, j.draw.Uint32(), j.started))
	m, err := openSession(ctx, j.conns[j.draw.IntN(len(j.conns))], j.name, id)
	if err != nil {
		return err
	}
	w, err := m.welcomed()
	if err != nil {
		m.cancel()
		return err
	}
	j.interval = time.Duration(w.GetBeatIntervalMs()) * time.Millisecond
	m.usual = j.o.Step*7/10 + time.Duration(j.draw.Float64()*float64(j.o.Step)/5)
	m.own, m.wait = m.usual, j.o.Step-m.usual
	j.members = append(j.members, m)
	j.all.running.Go(func() { m.read(ctx, j.inbox) })
	return nil
}

// run trains until ctx ends.
func (j *job) run(ctx context.Context) error {
	for _, m := range j.members {
		m.rank.Need()
		if err := m.join(); err != nil {
			return err
		}
	}
	j.beaten = time.Now()
	beats, steps := time.NewTicker(beatTurn), time.NewTicker(j.o.Step)
	defer beats.Stop()
	defer steps.Stop()
	var due <-chan time.Time // of the next death or join
	if j.o.Between > 0 {
		due = time.After(j.first)
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case s := <-j.inbox:
			err = j.hear(s)
		case <-beats.C:
			err = j.beat(time.Now())
		case <-steps.C:
			err = j.step(nil)
		case <-due:
			due = time.After(j.o.Between * time.Duration(j.o.Jobs) / 2)
			err = j.turnOver(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// hear takes what the lighthouse says to a member.
func (j *job) hear(s said) error {
	m := s.to
	if !slices.Contains(j.members, m) {
		return nil // it is dead
	}
	if s.err != nil {
		return j.lose(m, s.err)
	}
	if p := s.down.GetProbe(); p != nil {
		return m.send(&skerrypb.Up{Message: &skerrypb.Up_ProbeReply{ProbeReply: &skerrypb.ProbeReply{Number: p.GetNumber()}}})
	}
	if n, ok, err := wire.NoticeFromProto(s.down); err != nil {
		return err
	} else if ok {
		if m.rank.Hear(n) == quorum.HeardFall {
			m.rank.Fall(n.QuorumID)
		}
		return j.join(m)
	}
	switch x := s.down.GetMessage().(type) {
	case *skerrypb.Down_Answer:
		if err := m.take(x.Answer, j.named); err != nil {
			return err
		}
		j.settled()
		return j.join(m)
	case *skerrypb.Down_Timing:
		j.interval = time.Duration(x.Timing.GetBeatIntervalMs()) * time.Millisecond
	case *skerrypb.Down_Refused:
		return fmt.Errorf("%s is refused: %s", m.id, x.Refused.GetText())
	}
	return nil
}

// lose lets a member go whose session the lighthouse ended, as it does on a machine so busy that
// beats are late. A server that has gone ends all sessions.
func (j *job) lose(m *member, err error) error {
	name, _, _ := strings.Cut(string(m.id), ":")
	j.missing = append(j.missing, name)
	j.members = slices.DeleteFunc(j.members, func(o *member) bool { return o == m })
	j.change = change{}
	if status.Code(err) == codes.Unavailable || len(j.members) <= witnesses {
		return fmt.Errorf("the session of %s ended: %w", m.id, err)
	}
	j.all.saw(func(m *Measured) { m.Lost++ })
	return nil
}

// named is the member of that id; nil: none lives.
func (j *job) named(id quorum.ReplicaID) *member {
	for _, m := range j.members {
		if m.id == id {
			return m
		}
	}
	return nil
}

// join lets a member join that has no quorum, or wants a change.
func (j *job) join(m *member) error {
	if m.joined || !m.rank.Need() && !m.asks {
		return nil
	}
	if j.change.began.IsZero() {
		j.change.began = time.Now()
	}
	return m.join()
}

// whole says that all members stand in one quorum, and are all of it.
func (j *job) whole() bool {
	first := j.members[0].rank.QuorumID()
	for _, m := range j.members {
		if m.joined || !m.rank.Usable() || m.rank.QuorumID() != first {
			return false
		}
	}
	return len(j.members[0].rank.Assignment().ReplicaIDs) == len(j.members)
}

// settled notes the end of a change, once all have their answer.
func (j *job) settled() {
	if !j.whole() {
		return
	}
	c := j.change
	j.change = change{}
	if !j.met {
		j.met = true
		j.all.met()
		return
	}
	if c.began.IsZero() {
		return
	}
	took := time.Since(c.began)
	j.all.saw(func(m *Measured) {
		if c.dies {
			m.Deaths = append(m.Deaths, took)
		} else {
			m.Joins = append(m.Joins, took)
		}
	})
}

// turnOver lets a member die, or another one take the place of one that did.
func (j *job) turnOver(ctx context.Context) error {
	if n := len(j.missing); n > 0 {
		name := j.missing[n-1]
		j.missing = j.missing[:n-1]
		if err := j.start(ctx, name); err != nil {
			return err
		}
		m := j.members[len(j.members)-1]
		m.rank.Need()
		return m.join() // the others hear that a change is wanted
	}
	if !j.whole() || len(j.members) <= witnesses {
		return nil
	}
	return j.kill(j.members[j.draw.IntN(len(j.members))])
}

// kill ends a member in the middle of a step: its stream breaks, its ballot comes to none, and
// its neighbours tell.
func (j *job) kill(m *member) error {
	name, _, _ := strings.Cut(string(m.id), ":")
	j.missing = append(j.missing, name)
	j.change = change{dies: true, began: time.Now()}
	m.cancel()
	if err := j.step(m); err != nil {
		return err
	}
	j.members = slices.DeleteFunc(j.members, func(o *member) bool { return o == m })
	at := j.draw.IntN(len(j.members))
	for k := range witnesses {
		if err := j.members[(at+k)%len(j.members)].accuse(m.id); err != nil {
			return err
		}
	}
	return nil
}
