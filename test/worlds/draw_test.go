package worlds

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/manager"
	"github.com/skerry-ft/skerry/pg/debug"
)

// trait is something that a world may have and most do not.
type trait string

// The traits.
const (
	traitHang       trait = "hang: a trainer hangs for ever"
	traitRankHang   trait = "rankhang: single ranks hang"
	traitPauses     trait = "pauses: trainers hang for a while"
	traitLongHeal   trait = "longheal: heals longer than StuckAfter"
	traitLongStep   trait = "longstep: steps longer than StuckAfter"
	traitEvictStuck trait = "evict: EvictStuck"
	traitSkew       trait = "skew: seconds between members' StartQuorums"
	traitBlip       trait = "blip: the lighthouse out of everybody's reach"
	traitRankReset  trait = "rankreset: connections between ranks reset"
	traitRankDeath  trait = "rankdeath: ranks die alone"
	traitErrors     trait = "errors: steps report errors"
	traitCtx        trait = "ctx: ctxs end"
	traitLedger     trait = "ledger: the ledger is lost"
	traitSpares     trait = "spares: FixedWorldSize"
	traitMost       trait = "most: MaxReplicas"
	traitProbation  trait = "probation: Probation"
	traitShrink     trait = "shrink: ShrinkOnly"
	traitDelay      trait = "delay: links take time"
	traitDrain      trait = "drain: drains"
	traitSync       trait = "sync: Sync"
	traitCuts       trait = "cuts: links between replicas cut"
	traitOdd        trait = "odd: a replica calls other collectives"
	traitRestored   trait = "restored: the lighthouse's disk is an older one, put back"
	traitInPlace    trait = "inplace: HealInPlace"
	traitDetail     trait = "detail: each call is compared before it runs"
)

// chances say how often a trait is drawn.
var chances = []struct {
	trait  trait
	chance float64
}{
	{traitHang, 0.15}, {traitPauses, 0.2}, {traitRankHang, 0.3}, {traitLongHeal, 0.1}, {traitLongStep, 0.1}, {traitEvictStuck, 0.1}, {traitSkew, 0.2},
	{traitBlip, 0.15}, {traitRankReset, 0.3}, {traitRankDeath, 0.3}, {traitErrors, 0.3}, {traitCtx, 0.3}, {traitLedger, 0.15},
	{traitSpares, 0.15}, {traitMost, 0.1}, {traitProbation, 0.15}, {traitShrink, 0.1}, {traitDelay, 0.3}, {traitDrain, 0.2},
	{traitSync, 0.15},
}

// laterChances are those of traits that were added later: they are drawn by
// themselves, so that a seed goes on to mean the same.
var laterChances = []struct {
	trait  trait
	chance float64
}{{traitCuts, 0.2}, {traitOdd, 0.1}, {traitInPlace, 0.2}}

// drawn is all that a seed says.
type drawn struct {
	seed     uint64
	traits   map[trait]bool
	options  options
	replicas []drawnReplica
	faults   []fault
	length   time.Duration // of the phase of faults
	slowest  time.Duration // step of anybody, without a heal
	long     time.Duration // the one long step that a trainer may take
	heal     time.Duration // longest transfer and copy
}

type drawnReplica struct {
	name   string
	size   int
	begins time.Duration
	m      manners
}

// between draws evenly.
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)+1))
}

// chance is true so often.
func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

// draw makes a world of a seed. over is set when the faults are.
func draw(seed uint64, over *atomic.Bool) *drawn {
	r := rand.New(rand.NewPCG(seed, 0x5ce1))
	d := &drawn{seed: seed, traits: make(map[trait]bool), options: usual(), length: between(r, 5*time.Second, 25*time.Second)}
	for _, c := range chances {
		d.traits[c.trait] = chance(r, c.chance)
	}
	later := rand.New(rand.NewPCG(seed, 0x5ce2))
	for _, c := range laterChances {
		d.traits[c.trait] = chance(later, c.chance)
	}
	latest := rand.New(rand.NewPCG(seed, 0x5ce3))
	d.traits[traitRestored], d.traits[traitDetail] = chance(latest, 0.2), chance(latest, 0.1)
	n := 2 + r.IntN(5)
	size := 1
	if chance(r, 0.25) {
		n, size = min(n, 4), 2
	}
	d.drawRules(r, n)
	for i := range n {
		d.drawReplica(r, i, size, over)
	}
	d.drawFaults(r)
	d.drawOdd(later)
	d.drawCuts(later)
	d.drawRestored(latest)
	return d
}

// drawOdd makes one replica odd, which comes last, where the others are a majority,
// enough, and do not hang for ever: of two that differ nobody knows whose call is odd.
func (d *drawn) drawOdd(r *rand.Rand) {
	n := len(d.replicas)
	if d.traits[traitOdd] = d.traits[traitOdd] && !d.traits[traitHang] && n > 2 && d.options.rules.MinReplicas < n; !d.traits[traitOdd] {
		return
	}
	who := &d.replicas[r.IntN(n)]
	for _, o := range d.replicas {
		who.begins = max(who.begins, o.begins+2*time.Second)
	}
	who.m.odd = chance(r, 0.5)
	who.m.skips = !who.m.odd
}

func (d *drawn) drawRules(r *rand.Rand, n int) {
	o := &d.options
	rules := &o.rules
	rules.MinReplicas = 1 + r.IntN(max(n/2, 1))
	rules.JoinTimeout = between(r, 2*time.Second, 10*time.Second)
	rules.StuckAfter = between(r, 5*time.Second, time.Minute)
	if d.traits[traitLongHeal] || d.traits[traitLongStep] {
		rules.StuckAfter = between(r, 5*time.Second, 15*time.Second)
	}
	rules.EvictStuck = d.traits[traitEvictStuck]
	o.stepTimeout = between(r, 2*time.Second, 12*time.Second)
	if d.traits[traitMost] {
		rules.MaxReplicas = max(rules.MinReplicas, 2+r.IntN(n))
	}
	if d.traits[traitProbation] {
		rules.ProbationAfter = 3 + r.IntN(3)
	}
}

func (d *drawn) drawReplica(r *rand.Rand, i, size int, over *atomic.Bool) {
	stuck := d.options.rules.StuckAfter
	m := manners{forward: between(r, 10*time.Millisecond, 150*time.Millisecond), async: chance(r, 0.2)}
	if chance(r, 0.3) {
		m.pause = between(r, 0, 100*time.Millisecond)
	}
	if d.traits[traitSkew] && chance(r, 0.5) {
		m.pause = between(r, time.Second, 5*time.Second)
	}
	if chance(r, 0.4) {
		m.heals, m.staging = between(r, 0, 2*time.Second), between(r, 0, 200*time.Millisecond)
	}
	if d.traits[traitLongHeal] && chance(r, 0.5) {
		m.heals = between(r, stuck, 3*stuck)
	}
	if d.traits[traitLongStep] {
		d.long = 3 * stuck
	}
	d.slowest, d.heal = max(d.slowest, m.forward+m.pause), max(d.heal, m.heals+m.staging)
	d.options.healTimeout = max(d.options.healTimeout, 4*d.heal)
	// A deadline below what the slowest takes would be the user's error.
	d.options.stepTimeout = max(d.options.stepTimeout, 3*d.slowest+time.Second, 2*d.long)
	b := newBehaviour(d, i, over)
	b.hangs = d.traits[traitHang] && i > 0 && chance(r, 0.4)
	m.at, m.ctxFor, m.start = b.at, b.ctxFor, b.start
	spares := 0
	if d.traits[traitSpares] {
		spares = max(2, d.options.rules.MinReplicas)
	}
	m.tune = func(c *manager.Config) {
		c.FixedWorldSize, c.Sync, c.HealInPlace = spares, d.traits[traitSync], d.traits[traitInPlace]
		if d.traits[traitDetail] {
			c.Debug = debug.New(debug.Config{Level: debug.Detail, Log: zerolog.Nop()})
		}
	}
	begins := between(r, 0, 3*time.Second)
	if chance(r, 0.3) {
		begins = between(r, 0, d.length)
	}
	d.replicas = append(d.replicas, drawnReplica{name: string(rune('a' + i)), size: size, begins: begins, m: m})
}

// String is the table of what was drawn.
func (d *drawn) String() string {
	var s strings.Builder
	o := d.options
	fmt.Fprintf(&s, "rules %+v; step %v, heal %v; faults for %v\n", o.rules, o.stepTimeout, o.healTimeout, d.length)
	var traits []string
	for t, on := range d.traits {
		if on {
			traits = append(traits, string(t))
		}
	}
	slices.Sort(traits)
	fmt.Fprintf(&s, "traits: %s\n", strings.Join(traits, ", "))
	for _, r := range d.replicas {
		fmt.Fprintf(&s, "replica %s of %d from %v: pause %v, forward %v, heals %v, staging %v, async %t, odd %t\n",
			r.name, r.size, r.begins, r.m.pause, r.m.forward, r.m.heals, r.m.staging, r.m.async, r.m.odd || r.m.skips)
	}
	for _, f := range d.faults {
		fmt.Fprintf(&s, "fault %v\n", f)
	}
	return s.String()
}
