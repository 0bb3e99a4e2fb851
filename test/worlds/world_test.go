package worlds

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/quorum"
)

var worldLog = flag.Bool("worlds.log", false, "print what all components of a world log")

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // worlds are small and short
	goleak.VerifyTestMain(m)
}

// options are what a world begins with.
type options struct {
	rules       quorum.Config
	beat        time.Duration // of sessions
	stepTimeout time.Duration
	healTimeout time.Duration
}

// usual are the rules and times of a job with the defaults, but for StepTimeout,
// which is 10 s.
func usual() options {
	return options{
		rules: quorum.DefaultConfig(), beat: lighthouse.DefaultBeatInterval,
		stepTimeout: 10 * time.Second, healTimeout: 10 * time.Minute,
	}
}

// world is a lighthouse, replicas, and all that is between them, in one bubble.
type world struct {
	t      *testing.T // the bubble's
	outer  *testing.T // the test's, which a script may use as well
	o      options
	began  time.Time
	net    *nettest.Network
	plane  *pgtest.Memory
	heals  *heals
	log    zerolog.Logger
	memory *cluster.Memory
	book   *book

	house      *house   // nil where there are servers
	lighthouse []string // addresses

	newcomers int                      // how many
	onExit    func(p *proc, err error) // told of a process that ends by itself; nil: nothing

	mu struct {
		sync.Mutex

		procs []*proc // all that ever were
	}
}

// procs are all processes that ever were.
func (w *world) procs() []*proc {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.mu.procs)
}

// inWorld runs script in a world of its own, and ends what it started.
func inWorld(t *testing.T, o options, script func(w *world)) {
	t.Helper()
	outer := t
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, outer, o)
		w.house, w.lighthouse = w.startHouse(), []string{houseAddr}
		defer w.end()
		script(w)
	})
}

// newWorld makes a world without a lighthouse.
func newWorld(bubble, outer *testing.T, o options) *world {
	w := &world{
		t: bubble, outer: outer, o: o, began: time.Now(), net: nettest.New(), plane: pgtest.NewMemory(), heals: newHeals(),
		log: zerolog.Nop(), memory: cluster.NewMemory(),
	}
	if *worldLog {
		w.log = zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "04:05.000"}).With().Timestamp().Logger()
	}
	w.book = newBook(w)
	return w
}

// end stops everything that still runs.
func (w *world) end() {
	w.book.close()
	for _, p := range w.procs() {
		p.stop()
	}
	if w.house != nil {
		w.house.stop()
	}
	if w.t.Failed() || w.outer.Failed() {
		w.book.print()
	}
}

// whole: no link of anybody is held or cut.
func (w *world) whole() bool { return w.net.Whole() && w.plane.Whole() }

// now is the world's time.
func (w *world) now() time.Duration { return time.Since(w.began) }

// house is the process of the lighthouse server.
type house struct {
	host   *nettest.Host
	server *lighthouse.Server
	addr   string
	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
}

const houseAddr = "127.0.0.1:29510"

// startHouse starts the lighthouse at its address, with the ledger that it had.
func (w *world) startHouse() *house {
	w.t.Helper()
	h := &house{host: w.net.Host("lighthouse"), addr: houseAddr, done: make(chan struct{})}
	cfg := lighthouse.DefaultConfig()
	cfg.Network, cfg.Listen, cfg.Rules, cfg.BeatInterval = h.host, houseAddr, w.o.rules, w.o.beat
	cfg.Raft.Memory, cfg.Log = w.memory, w.log.With().Str("name", "lighthouse").Logger()
	var err error
	if h.server, err = lighthouse.New(cfg); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	go func() {
		defer close(h.done)
		if err := h.server.Run(ctx); err != nil {
			w.book.wrong("lighthouse ended: %v", err)
		}
	}()
	return h
}

// stop ends the server and waits. Connections are cut.
func (h *house) stop() {
	h.once.Do(func() {
		h.host.Kill()
		h.cancel()
	})
	<-h.done
}

// restartHouse stops the lighthouse for a while. Without its ledger it comes back as
// a new cluster.
func (w *world) restartHouse(away time.Duration, ledgerLost bool) {
	w.book.fault("lighthouse", "down for %v, ledger lost: %t", away, ledgerLost)
	w.house.stop()
	w.forgetLedger(ledgerLost)
	time.Sleep(away)
	w.house = w.startHouse()
	w.book.note("lighthouse", "up again")
}

// blip swallows all that goes to and from the lighthouse, for a while.
func (w *world) blip(away time.Duration) {
	w.book.fault("lighthouse", "out of everybody's reach for %v", away)
	for _, p := range w.procs() {
		w.net.HoldBoth(p.host.Name, "lighthouse", true)
	}
	time.Sleep(away)
	for _, p := range w.procs() {
		w.net.HoldBoth(p.host.Name, "lighthouse", false)
	}
	w.book.note("lighthouse", "in reach again")
}

// within waits until ok, or fails after a time of the world.
func (w *world) within(d time.Duration, what string, ok func() bool) bool {
	w.t.Helper()
	const look = 5 * time.Millisecond
	for began := time.Now(); !ok(); {
		if time.Since(began) > d {
			w.t.Errorf("at %v: not within %v: %s; %s", w.now(), d, what, w.standings())
			return false
		}
		time.Sleep(look)
	}
	return true
}

// reach waits until all have committed step.
func (w *world) reach(step int64, d time.Duration, replicas ...*replica) bool {
	w.t.Helper()
	return w.within(d, fmt.Sprintf("all at step %d", step), func() bool {
		for _, r := range replicas {
			for _, p := range r.ranks {
				if p.atStep() < step {
					return false
				}
			}
		}
		return true
	})
}

// standings say where everybody is.
func (w *world) standings() string {
	s := ""
	for _, p := range w.procs() {
		if p.alive() {
			s += fmt.Sprintf("%s at step %d in quorum %d, %s; ", p.name, p.atStep(), p.m.QuorumID(), p.doing())
		}
	}
	return s
}

// few is n, or a third of it where tests are short, as under the race detector, which
// takes ten times as long for the same code.
func few(n int) int {
	if testing.Short() {
		return max(1, n/3)
	}
	return n
}
