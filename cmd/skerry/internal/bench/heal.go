package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/worker"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/eventline"
)

// The envelope: members wait for a joiner from the end of their own computation
// until it has what differs. Everything is read once for that, at 6 GB/s and core;
// what differs travels at the speed of the raw stream, about, and is copied once.
// A quorum and its group take 20 ms. So: max(step, 0.2 s per GiB + difference) + 20 ms.

const (
	healStepTime = 400 * time.Millisecond // for 1 GiB and more; less in proportion
	healLeast    = 20 * time.Millisecond
	healSteady   = 10 // steps before the joiner comes, and after it takes part
	healLimit    = 3 * time.Minute
)

// healChanges are how much of a state changes with a step: as much as is reduced
// and no more (the rest is frozen); one part in a hundred, another in each step
// (embeddings); everything (dense Adam), also healed in place.
var healChanges = []string{changeNone, changeRows, changeAll, changeAll + inPlace}

const inPlace = ", in place" // of a change: with manager.Config.HealInPlace

// runHeal measures the members' longest time between two commits while a replica
// joins whose state is all different, and the raw stream of as many bytes.
func runHeal(ctx context.Context, o Options, emit emitFunc) error {
	samples := cmp.Or(o.Samples, 5)
	if o.Peers {
		o.note("not measured: torchft: a trainer of its own is needed, see docs/bench/README.md")
	}
	for _, bytes := range o.sizes(1 << 30) {
		raw := Contest{Bench: "heal-raw", Unit: "ms", Samples: samples}
		if err := raw.Each(ctx, []Contestant{rawStream{}}, emit, Params{"bytes": bytes}); err != nil {
			return err
		}
		for _, change := range healChanges {
			if err := healRows(ctx, bytes, change, samples, emit); err != nil {
				return fmt.Errorf("%s of %d bytes: %w", change, bytes, err)
			}
		}
	}
	return nil
}

// rawStream is a contestant: one loopback connection for as many bytes, from memory
// into memory.
type rawStream struct{}

// Impl implements Contestant.
func (rawStream) Impl() string { return "raw stream" }

// Close implements Contestant.
func (rawStream) Close() error { return nil }

// Sample implements Contestant.
func (rawStream) Sample(ctx context.Context, p Params) (float64, error) {
	bytes := p["bytes"].(int64)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close() //nolint:errcheck // nothing is lost with it
	sent := make(chan error, 1)
	const piece = 64 << 20
	go func() { // ends with the connection, or the listener
		conn, err := ln.Accept()
		if err != nil {
			sent <- err
			return
		}
		b := make([]byte, piece)
		for left := bytes; left > 0 && err == nil; left -= piece {
			_, err = conn.Write(b[:min(left, piece)])
		}
		sent <- errors.Join(err, conn.Close())
	}()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", ln.Addr().String())
	if err != nil {
		return 0, err
	}
	into := make([]byte, piece)
	began := time.Now()
	for left := bytes; left > 0 && err == nil; left -= piece {
		_, err = io.ReadFull(conn, into[:min(left, piece)])
	}
	took := time.Since(began)
	return took.Seconds() * 1e6, errors.Join(err, <-sent, conn.Close())
}

// healRows trains two replicas, lets a third join as often as samples are wanted,
// and gives the longest gap, what it adds to a step, and the time from start to taking part.
func healRows(ctx context.Context, bytes int64, change string, samples int, emit emitFunc) (err error) {
	s, err := startServers(ctx, serverOptions{count: 1, minReplicas: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	args := healArgs{Lighthouse: s.addrs[0], Bytes: bytes, Change: change, StepMs: healStep(bytes).Milliseconds()}
	a, err := startHealer(args, 0)
	if err != nil {
		return err
	}
	defer a.End()
	b, err := startHealer(args, 1)
	if err != nil {
		return err
	}
	defer b.End()
	var sum healSums
	for i := range samples {
		if err := sum.sample(ctx, args, a, b, i+2); err != nil {
			return err
		}
	}
	p := Params{
		"bytes": bytes, "change": change, "step_ms": median(sum.steps), "copied_mib": median(sum.copied),
		"healed_mib": median(sum.healed), "copy_mib_s": median(sum.rate),
		"discards": sum.discards, "donor_step_ms": median(sum.beside), "donor_slowdown": median(sum.slowdown),
	}
	emit(Contest{Bench: "heal-gap", Unit: "ms"}.row("skerry", p, sum.gaps),
		Contest{Bench: "heal-over-step", Unit: "ms"}.row("skerry", p, sum.over),
		Contest{Bench: "heal-joined", Unit: "ms"}.row("skerry", p, sum.joined))
	if change != changeNone {
		return nil
	}
	took, err := sum.kill(ctx, args, a, b, samples+2)
	if err != nil {
		return fmt.Errorf("with a donor killed: %w", err)
	}
	emit(Contest{Bench: "heal-donor-killed", Unit: "ms"}.row("skerry", Params{"bytes": bytes, "joined_without": median(sum.joined)}, []float64{took}))
	return nil
}

func healStep(bytes int64) time.Duration {
	return max(time.Duration(float64(healStepTime)*min(float64(bytes)/(1<<30), 1)), healLeast)
}

// healSums are the samples of one set of parameters.
type healSums struct {
	gaps, over, joined, steps, copied, healed, rate []float64

	beside, slowdown []float64 // the members' steps meanwhile, and by how much those are longer

	discards float64 // of the members, while replicas joined
}

// sample lets one replica join, and ends it.
func (sum *healSums) sample(ctx context.Context, args healArgs, a, b *healer, n int) error {
	steady := a.steady(ctx, 2)
	b.steady(ctx, 2)
	before, from := a.last.Discards, eventline.Now()
	c, err := startHealer(args, n)
	if err != nil {
		return err
	}
	defer c.End()
	gap, first, beside := a.gapUntil(ctx, 3)
	other, _, _ := b.gapUntil(ctx, 3)
	sum.discards += float64(a.last.Discards - before)
	if err := sameState(ctx, a, b, c); err != nil {
		return err
	}
	gap = max(gap, other)
	sum.gaps = append(sum.gaps, gap)
	sum.over = append(sum.over, gap-steady)
	sum.steps = append(sum.steps, steady)
	sum.joined = append(sum.joined, float64(first-from)/1e6)
	sum.copied = append(sum.copied, float64(c.copied)/(1<<20))
	sum.healed = append(sum.healed, float64(c.healed)/(1<<20))
	if c.copyMs > 0 {
		sum.rate = append(sum.rate, float64(c.copied)/(1<<20)/c.copyMs*1e3)
	}
	if len(beside) > 0 {
		sum.beside = append(sum.beside, median(beside))
		sum.slowdown = append(sum.slowdown, median(beside)/steady-1)
	}
	return nil
}

// killTries is how often kill lets a replica join: of what is copied quickly a donor may have
// no part to send.
const killTries = 20

// kill lets one replica join beside a and a donor that dies (SIGKILL) in the middle of a part, when it has
// sent its half of a third of the copy. It returns the time from the joiner's start to its first
// step as a participant, in milliseconds.
func (sum *healSums) kill(ctx context.Context, args healArgs, a, b *healer, n int) (float64, error) {
	ctx, cancel := within(ctx, "no joiner takes part")
	defer cancel()
	b.End()
	dies := args
	dies.DieSending = max(args.Bytes/checkpoint.DefaultChunkBytes/6, 1)
	d, err := startHealer(dies, n)
	if err != nil {
		return 0, err
	}
	defer d.End()
	for try := range killTries {
		a.steady(ctx, 2)
		from := eventline.Now()
		c, err := startHealer(args, n+1+try)
		if err != nil {
			return 0, err
		}
		defer c.End()
		for c.next(ctx) && c.line.Participants < 2 { // it heals
			continue
		}
		first := c.line
		if c.err != nil || first.Participants == 2 {
			return float64(first.At-from) / 1e6, cmp.Or(c.err, sameState(ctx, a, c))
		}
		c.End() // the donor lives
	}
	return 0, fmt.Errorf("in %d tries the donor that dies had too little to send", killTries)
}

// healer is a replica's process, seen from outside. After an error all that waits for
// it returns at once.
type healer struct {
	*worker.Process

	copied, healed int64
	copyMs         float64
	line           healLine // the newest commit or sum
	last           healLine // the newest commit
	err            error
}

func startHealer(args healArgs, n int) (*healer, error) {
	p, err := worker.Start(WorkerHeal, n, n+1, args)
	return &healer{Process: p}, err
}

// next reads the next commit or sum, and takes notes of heals. It returns false after
// an error.
func (h *healer) next(ctx context.Context) bool {
	for h.err == nil {
		var l healLine
		if h.err = context.Cause(ctx); h.err == nil {
			h.err = h.Process.Next(&l)
		}
		switch {
		case h.err != nil:
		case l.CopyMs > 0:
			h.copied, h.copyMs = l.Bytes, l.CopyMs
		case l.Healed:
			h.healed = l.Bytes
		default:
			h.line = l
			return true
		}
	}
	return false
}

// within bounds a wait for what is named.
func within(ctx context.Context, format string, args ...any) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, healLimit, fmt.Errorf(format+" within %v", append(args, healLimit)...))
}

// steady waits for healSteady commits in a row with so many participants, and
// gives the median time between them in milliseconds.
func (h *healer) steady(ctx context.Context, participants int) float64 {
	ctx, cancel := within(ctx, "no %d commits of %d participants", healSteady, participants)
	defer cancel()
	var times []float64
	var last int64
	for len(times) < healSteady && h.next(ctx) {
		switch {
		case h.line.Participants != participants:
			times, last = nil, 0
			continue
		case last > 0:
			times = append(times, float64(h.line.At-last)/1e6)
		}
		last, h.last = h.line.At, h.line
	}
	return median(times)
}

// gapUntil waits until so many have taken part for some steps; it gives the
// longest time between two commits until then, in milliseconds, when the first
// of those steps was committed, and the times between commits before.
func (h *healer) gapUntil(ctx context.Context, participants int) (gap float64, first int64, before []float64) {
	ctx, cancel := within(ctx, "not %d participants", participants)
	defer cancel()
	for n := 0; n < healSteady && h.next(ctx); {
		took := float64(h.line.At-h.last.At) / 1e6
		gap = max(gap, took)
		h.last = h.line
		switch {
		case h.line.Participants == participants:
			if n++; n == 1 {
				first = h.line.At
			}
		case n == 0:
			before = append(before, took)
		}
	}
	return gap, first, before
}

// sum waits for the sum of a step, or of the first one after it if that has passed.
func (h *healer) sum(ctx context.Context, step int64) (sum healLine) {
	ctx, cancel := within(ctx, "no sum of step %d", step)
	defer cancel()
	for h.next(ctx) {
		if h.line.Sum != 0 {
			return h.line
		}
		h.last = h.line
	}
	return healLine{}
}

// sameState compares the states of one step that is still to come. Where a replica has
// passed it by when it is told, as on a machine that is slow to read what replicas print,
// it is a later one. It returns the error of a replica that had one before.
func sameState(ctx context.Context, all ...*healer) error {
	at, ahead := all[0].last.Commit, int64(2*healSteady)
	for {
		at, ahead = at+ahead, 2*ahead
		sums := make([]healLine, len(all))
		for _, h := range all {
			h.err = cmp.Or(h.err, h.Tell(at))
		}
		met := true
		for i, h := range all {
			if sums[i] = h.sum(ctx, at); h.err != nil {
				return h.err
			}
			met = met && sums[i].Commit == at
			at = max(at, sums[i].Commit)
		}
		if !met {
			continue
		}
		for _, l := range sums {
			if l.Sum != sums[0].Sum {
				return fmt.Errorf("the states of step %d differ: %08x and %08x", at, l.Sum, sums[0].Sum)
			}
		}
		return nil
	}
}
