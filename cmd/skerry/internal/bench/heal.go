package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
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
// (embeddings); everything (dense Adam).
var healChanges = []string{changeNone, changeRows, changeAll}

// runHeal measures the members' longest time between two commits while a replica
// joins whose state is all different, and the raw stream of as many bytes.
func runHeal(ctx context.Context, o Options, emit emitFunc) error {
	samples := cmp.Or(o.Samples, 5)
	if o.Peers {
		o.note("not measured: torchft: a trainer of its own is needed, see docs/bench/README.md")
	}
	for _, bytes := range o.sizes(1 << 30) {
		raw := Contest{Bench: "heal-raw", Unit: "ms", Samples: samples}
		rows, err := raw.Run(ctx, Params{"bytes": bytes}, []Contestant{rawStream{}})
		if err != nil {
			return err
		}
		emit(rows...)
		for _, change := range healChanges {
			rows, err := healRows(ctx, bytes, change, samples)
			if err != nil {
				return fmt.Errorf("%s of %d bytes: %w", change, bytes, err)
			}
			emit(rows...)
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
// and gives two rows: the longest gap, and the time from start to taking part.
func healRows(ctx context.Context, bytes int64, change string, samples int) (rows []Row, err error) {
	s, err := startServers(ctx, serverOptions{count: 1, minReplicas: 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	args := healArgs{Lighthouse: s.addrs[0], Bytes: bytes, Change: change, StepMs: healStep(bytes).Milliseconds()}
	a, err := startHealer(args, 0)
	if err != nil {
		return nil, err
	}
	defer a.end()
	b, err := startHealer(args, 1)
	if err != nil {
		return nil, err
	}
	defer b.end()
	var sum healSums
	for i := range samples {
		if err := sum.sample(ctx, args, a, b, i+2); err != nil {
			return nil, err
		}
	}
	p := Params{
		"bytes": bytes, "change": change, "step_ms": median(sum.steps), "copied_mib": median(sum.copied),
		"healed_mib": median(sum.healed), "copy_mib_s": median(sum.rate),
		"discards": sum.discards,
	}
	return []Row{
		Contest{Bench: "heal-gap", Unit: "ms"}.row("skerry", p, sum.gaps),
		Contest{Bench: "heal-over-step", Unit: "ms"}.row("skerry", p, sum.over),
		Contest{Bench: "heal-joined", Unit: "ms"}.row("skerry", p, sum.joined),
	}, nil
}

func healStep(bytes int64) time.Duration {
	return max(time.Duration(float64(healStepTime)*min(float64(bytes)/(1<<30), 1)), healLeast)
}

// healSums are the samples of one set of parameters.
type healSums struct {
	gaps, over, joined, steps, copied, healed, rate []float64

	discards float64 // of the members, while replicas joined
}

// sample lets one replica join, and ends it.
func (sum *healSums) sample(ctx context.Context, args healArgs, a, b *healer, n int) error {
	steady, err := a.steady(ctx, 2)
	if err != nil {
		return err
	}
	if _, err := b.steady(ctx, 2); err != nil {
		return err
	}
	before := a.last.Discards
	from, err := hostNanos()
	if err != nil {
		return err
	}
	c, err := startHealer(args, n)
	if err != nil {
		return err
	}
	defer c.end()
	gap, first, err := a.gapUntil(ctx, 3)
	if err != nil {
		return err
	}
	other, _, err := b.gapUntil(ctx, 3)
	if err != nil {
		return err
	}
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
	return nil
}

// healer is a replica's process, seen from outside.
type healer struct {
	*process

	copied, healed int64
	copyMs         float64
	last           healLine // the newest commit
}

func startHealer(args healArgs, n int) (*healer, error) {
	p, err := startProcess(WorkerHeal, n, n+1, args)
	return &healer{process: p}, err
}

// next returns the next commit or sum, and takes notes of heals.
func (h *healer) next(ctx context.Context) (healLine, error) {
	for ctx.Err() == nil {
		var l healLine
		if err := h.process.next(&l); err != nil {
			return l, err
		}
		switch {
		case l.CopyMs > 0:
			h.copied, h.copyMs = l.Bytes, l.CopyMs
		case l.Healed:
			h.healed = l.Bytes
		default:
			return l, nil
		}
	}
	return healLine{}, context.Cause(ctx)
}

// steady waits for healSteady commits in a row with so many participants, and
// gives the median time between them in milliseconds.
func (h *healer) steady(ctx context.Context, participants int) (float64, error) {
	var times []float64
	var last int64
	for begin := time.Now(); len(times) < healSteady; {
		if time.Since(begin) > healLimit {
			return 0, fmt.Errorf("no %d commits of %d participants within %v", healSteady, participants, healLimit)
		}
		l, err := h.next(ctx)
		if err != nil {
			return 0, err
		}
		switch {
		case l.Participants != participants:
			times, last = nil, 0
			continue
		case last > 0:
			times = append(times, float64(l.At-last)/1e6)
		}
		last, h.last = l.At, l
	}
	return median(times), nil
}

// gapUntil waits until so many have taken part for some steps; it gives the
// longest time between two commits until then, in milliseconds, and when the first
// of those steps was committed.
func (h *healer) gapUntil(ctx context.Context, participants int) (gap float64, first int64, err error) {
	for begin, n := time.Now(), 0; n < healSteady; {
		if time.Since(begin) > healLimit {
			return 0, 0, fmt.Errorf("not %d participants within %v", participants, healLimit)
		}
		l, err := h.next(ctx)
		if err != nil {
			return 0, 0, err
		}
		gap = max(gap, float64(l.At-h.last.At)/1e6)
		h.last = l
		if l.Participants == participants {
			if n++; n == 1 {
				first = l.At
			}
		}
	}
	return gap, first, nil
}

// sameState compares the states of one step that is still to come.
func sameState(ctx context.Context, all ...*healer) error {
	at := all[0].last.Commit + 2*healSteady
	sums := make([]uint32, len(all))
	for _, h := range all {
		if err := h.tell(at); err != nil {
			return err
		}
	}
	for i, h := range all {
		for begin := time.Now(); sums[i] == 0; {
			l, err := h.next(ctx)
			switch {
			case err != nil:
				return err
			case l.Sum != 0:
				sums[i] = l.Sum
			case time.Since(begin) > healLimit:
				return fmt.Errorf("step %d is not there within %v", at, healLimit)
			default:
				h.last = l
			}
		}
		if sums[i] != sums[0] {
			return fmt.Errorf("the states of step %d differ: %08x", at, sums)
		}
	}
	return nil
}
