package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// The least that a seed is.
const (
	MinReplicas = 8
	MinSteps    = 200
	MinFaults   = 20
)

// Options are what a seed draws. They are printed when a run fails.
type Options struct {
	Seed     uint64
	Replicas int
	Ranks    int           // of a replica
	Servers  int           // of the lighthouse
	Min      int           // replicas in a quorum
	Fixed    int           // participants at most; 0: all
	Steps    int           // attempted at least
	Faulty   time.Duration // how long faults happen
	DelayMax time.Duration // of one message
	StepTime time.Duration // of forward and backward
	Sync     bool          // heals happen before collectives
	InitSync bool          // replicas begin with different bytes
	Stuck    time.Duration // quorum.Config.StuckAfter
	Own      int           // quorum.RankConfig.MinReplicas of every other replica
	Shares   bool          // trainers ask who takes part before they compute
	Cause    string        // nothing else fails, and gaps between commits are judged; "": all kinds of faults
	Strikes  time.Duration // when the cause does, at the earliest
	Slack    time.Duration // by how much a commit at rest may be later, for one is slow
	Faults   []Fault
}

// draw makes the options of a seed.
func draw(seed uint64) Options {
	rng := rand.New(rand.NewPCG(seed, 0))
	ms := func(lo, hi int) time.Duration { return time.Duration(lo+rng.IntN(hi-lo+1)) * time.Millisecond }
	o := Options{
		Seed: seed, Replicas: MinReplicas + rng.IntN(2), Ranks: 1 + rng.IntN(2),
		Servers: [...]int{1, 3, 3, 3, 5}[rng.IntN(5)], Steps: MinSteps,
		DelayMax: ms(1, 12), StepTime: ms(10, 60), Sync: rng.IntN(2) == 0, InitSync: rng.IntN(4) == 0,
	}
	o.Min = 1 + rng.IntN(o.Replicas-1)
	if rng.IntN(4) == 0 {
		o.Fixed = o.Replicas - rng.IntN(3)
	}
	if rng.IntN(2) == 0 {
		o.Stuck = ms(2_000, 6_000)
	}
	o.Faulty = ms(6_000, 14_000)
	o.drawFaults(rng)
	o.drawVotes()
	o.drawFlips()
	o.drawTrainers()
	o.drawShrinks()
	return o
}

// drawVotes lists the votes that will be lost between a replica's ranks, in half of
// the worlds that have several. It draws by itself, so that the other worlds stay
// what they were.
func (o *Options) drawVotes() {
	rng := rand.New(rand.NewPCG(o.Seed, 3))
	if o.Ranks == 1 || rng.IntN(2) == 0 {
		return
	}
	for range 1 + rng.IntN(4) {
		o.Faults = append(o.Faults, Fault{
			At:   time.Duration(rng.Int64N(int64(o.Faulty))),
			Kind: FaultVote + FaultKind(rng.IntN(2)), A: rng.IntN(64),
		})
	}
}

// drawFlips adds bits that flip to a third of the worlds, likewise.
func (o *Options) drawFlips() {
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	if rng.IntN(3) > 0 {
		return
	}
	for range 1 + rng.IntN(3) {
		at := time.Duration(rng.Int64N(int64(o.Faulty)))
		o.Faults = append(o.Faults, Fault{At: at, Kind: FaultFlip, A: rng.IntN(64)})
	}
}

// drawShrinks adds joins that ask for no newcomers to a third of the worlds, likewise.
func (o *Options) drawShrinks() {
	rng := rand.New(rand.NewPCG(o.Seed, 5))
	for range max(0, rng.IntN(18)-11) {
		o.Faults = append(o.Faults, Fault{time.Duration(rng.Int64N(int64(o.Faulty))), FaultShrink, rng.IntN(64), rng.IntN(64), 0})
	}
}

// drawTrainers lists what goes wrong at single ranks, in their backends and trainers,
// and says how these are set, likewise.
func (o *Options) drawTrainers() {
	rng := rand.New(rand.NewPCG(o.Seed, 4))
	o.Own, o.Shares = 1, rng.IntN(3) == 0
	if rng.IntN(2) == 0 {
		o.Own = o.Min
	}
	if o.Fixed > 0 {
		o.Own = min(o.Own, o.Fixed)
	}
	kinds := int(FaultFlip - FaultRefuse)
	only := rng.IntN(2 * kinds) // in half of the worlds one kind alone
	for range rng.IntN(8) {
		kind := FaultRefuse + FaultKind(rng.IntN(kinds))
		if only < kinds {
			kind = FaultRefuse + FaultKind(only)
		}
		o.Faults = append(o.Faults, Fault{
			At: time.Duration(rng.Int64N(int64(o.Faulty))), Kind: kind, A: rng.IntN(64), B: rng.IntN(64),
		})
	}
}

// drawFaults lists what will go wrong. A third of the kinds is absent from a
// seed, so that rare ones meet.
func (o *Options) drawFaults(rng *rand.Rand) {
	var weight [FaultVote]int
	total := 0
	for i := range weight {
		if rng.IntN(3) > 0 {
			weight[i] = 1 + rng.IntN(4)
		}
		total += weight[i]
	}
	if total == 0 {
		weight[FaultCrash], total = 1, 1
	}
	n := MinFaults + rng.IntN(11)
	for i := range n {
		at := rng.IntN(total)
		kind := FaultKind(0)
		for at >= weight[kind] {
			at -= weight[kind]
			kind++
		}
		o.Faults = append(o.Faults, Fault{
			At:   o.Faulty * time.Duration(i*8+rng.IntN(16)) / time.Duration(n*8+16),
			Kind: kind, A: rng.IntN(64), B: rng.IntN(64),
			Lasts: time.Duration(10+rng.IntN(rng.IntN(3_000)+1)) * time.Millisecond,
		})
	}
}

// rank is what a rank of a replica is started with.
func (o *Options) rank(replica, groupRank int) quorum.RankConfig {
	own := o.Own
	if replica%2 > 0 {
		own = 1
	}
	return quorum.RankConfig{
		GroupRank: groupRank, GroupWorldSize: o.Ranks, MinReplicas: own, FixedWorldSize: o.Fixed,
		Sync: o.Sync, NoInitSync: !o.InitSync, ParityEvery: parityEvery,
	}
}

// config is the job's.
func (o *Options) config() quorum.Config {
	c := quorum.DefaultConfig()
	c.MinReplicas, c.JoinTimeout, c.StuckAfter = o.Min, joinTimeout, o.Stuck
	return c
}

// String is one line for people; the faults are listed apart.
func (o Options) String() string {
	text := fmt.Sprintf("seed %d: %d replicas of %d ranks, %d servers, min %d, fixed %d, %d steps, faults for %v, delays to %v, "+
		"steps of %v, sync %t, init sync %t, stuck after %v, ranks want %d, shares %t",
		o.Seed, o.Replicas, o.Ranks, o.Servers, o.Min, o.Fixed, o.Steps, o.Faulty, o.DelayMax, o.StepTime, o.Sync, o.InitSync, o.Stuck, o.Own, o.Shares)
	if o.Cause != "" {
		text += fmt.Sprintf(", cause %s after %v", o.Cause, o.Strikes)
	}
	return text
}

// parityEvery is in how many steps members compare states: all of each, for a state
// here is one number.
const parityEvery = 4

// Times of the members and the servers, beside those of quorum.Config.
const (
	joinTimeout  = 3 * time.Second
	beatEvery    = 100 * time.Millisecond
	linkSilence  = 500 * time.Millisecond // a silent link is noticed
	opDeadline   = 2 * time.Second        // an op, a configure
	healDeadline = time.Second
	drainAgain   = 500 * time.Millisecond // a drained member asks whether that still holds
	undoWithin   = 300 * time.Millisecond // an operator takes a drain back
	drainLimit   = 6 * time.Second        // a drained member leaves, whoever took over
	keepAlive    = time.Second            // a dead stream is noticed
	voteDeadline = time.Second            // the ranks of a replica do without a vote
	callDeadline = opDeadline / 6         // a call to a replica's server
	firstPause   = 20 * time.Millisecond
	maxPause     = 250 * time.Millisecond // between tries to come into a quorum
)
