package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// fleet is replicas that train, and are killed.
type fleet struct {
	t       *testing.T
	ctx     context.Context
	servers *servers
	book    *book
	arena   *arena
	running sync.WaitGroup
	life    int
	alive   []*incarnation
}

// incarnation is one running replica.
type incarnation struct {
	r    *replica
	kill context.CancelFunc
	done chan struct{}
}

func (f *fleet) birth(slot int) {
	f.life++
	r := &replica{
		id:     fmt.Sprintf("r%d:00000000-0000-4000-8000-%012d", slot, f.life),
		client: slot, book: f.book, arena: f.arena, servers: f.servers, deaths: make(chan string, 256),
	}
	ctx, kill := context.WithCancel(f.ctx)
	x := &incarnation{r: r, kill: kill, done: make(chan struct{})}
	f.running.Go(func() { defer close(x.done); r.run(ctx) })
	for len(f.alive) <= slot {
		f.alive = append(f.alive, nil)
	}
	f.alive[slot] = x
}

// die kills a replica, and its peers see their links break.
func (f *fleet) die(slot int) {
	x := f.alive[slot]
	called := f.book.now()
	x.kill()
	<-x.done
	f.book.add(porcupine.Operation{ClientId: slot, Input: input{who: x.r.id, killed: true}, Output: output{}, Call: called, Return: f.book.now()})
	for _, o := range f.alive {
		if o != x {
			select {
			case o.r.deaths <- x.r.id:
			default:
			}
		}
	}
}

// TestHistory lets replicas train under kills, partitions and changes of leader,
// and checks the history of all answers.
func TestHistory(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(*seed, 1))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	f := &fleet{
		t: t, ctx: ctx, servers: startServers(t, 3, nil), book: &book{began: time.Now()},
		arena: &arena{rng: rand.New(rand.NewPCG(*seed, 2)), steps: map[stepKey]*meeting{}},
	}
	f.servers.waitLeader(-1)
	for slot := range 5 {
		f.birth(slot)
	}
	f.trains(0)
	leaders := 0
	for end := time.Now().Add(*length); time.Now().Before(end); {
		switch rng.IntN(5) {
		case 0:
			l := f.servers.waitLeader(-1)
			f.servers.kill(l)
			f.servers.waitLeader(l)
			f.servers.start(l)
			leaders++
		case 1:
			l := f.servers.waitLeader(-1)
			f.servers.partition(l, true)
			f.servers.waitLeader(l)
			f.pause(rng, 300*time.Millisecond)
			f.servers.partition(l, false)
			leaders++
		default:
			slot := rng.IntN(len(f.alive))
			f.die(slot)
			f.birth(slot)
		}
		f.pause(rng, 500*time.Millisecond)
	}
	f.trains(f.newest())
	stop()
	f.running.Wait()
	quorums := map[int64]bool{}
	for _, op := range f.book.ops {
		quorums[op.Output.(output).id] = true
	}
	if got := judge(minReplicas, f.book.ops); got != porcupine.Ok {
		t.Errorf("seed %d: the history of %d answers is %v, want %v", *seed, len(f.book.ops), got, porcupine.Ok)
		for _, op := range f.book.ops {
			t.Logf("%d to %d: %+v: %+v", op.Call, op.Return, op.Input, op.Output)
		}
	}
	t.Logf("seed %d: %d answers of %d quorums, %d replicas killed, %d leaders", *seed, len(f.book.ops), len(quorums), f.life-len(f.alive), leaders)
}

func (f *fleet) pause(rng *rand.Rand, most time.Duration) {
	select {
	case <-f.ctx.Done():
	case <-time.After(time.Duration(rng.Int64N(int64(most)))):
	}
}

// newest is the newest quorum that anybody was told of.
func (f *fleet) newest() int64 {
	f.book.mu.Lock()
	defer f.book.mu.Unlock()
	var id int64
	for _, op := range f.book.ops {
		id = max(id, op.Output.(output).id)
	}
	return id
}

// trains waits until a quorum above id has been told.
func (f *fleet) trains(id int64) {
	f.t.Helper()
	for end := time.Now().Add(30 * time.Second); f.newest() <= id; {
		if time.Now().After(end) {
			f.t.Fatalf("no quorum after %d within 30s", id)
		}
		<-time.After(10 * time.Millisecond)
	}
}
