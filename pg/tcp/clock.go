package tcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skerry-ft/skerry/internal/futex"
	"github.com/skerry-ft/skerry/internal/otherproc"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// errSilent is the cause when a link was silent for a beat timeout.
var errSilent = errors.New("link is silent")

// clock sends beats, finds silent links, and ends ops at their deadline.
func (b *Backend) clock() {
	timer := time.NewTimer(b.opt.BeatInterval)
	defer timer.Stop()
	due := time.Now().Add(b.opt.BeatInterval)
	for {
		select {
		case <-b.closing:
			return
		case <-timer.C:
		case <-b.tick:
		}
		now := time.Now()
		// While the clock did not run, neither did the readers: what it would
		// take for a peer's silence is its own sleep.
		due = b.look(now, now.Sub(due))
		timer.Reset(time.Until(due))
	}
}

// lateness that is ordinary.
const clockSlack = 5 * time.Millisecond

// look does what is due, and says when to look again. It came late by that much.
func (b *Backend) look(now time.Time, late time.Duration) time.Time {
	var do todo
	var kicks []*link
	var silent []*sock
	next := now.Add(b.opt.BeatInterval)
	coarse := b.now()
	b.mu.Lock()
	for l := range b.mu.links {
		for _, k := range l.socks {
			if late > clockSlack {
				k.received.Store(min(coarse, k.received.Load()+int64(late)))
			}
		}
		if !l.dialed && l.overdueLocked(now) {
			do.close = append(do.close, l)
			continue
		}
		if !l.greeted {
			continue
		}
		beats := len(kicks)
		for _, k := range l.socks {
			if coarse-k.sent.Load() >= int64(b.opt.BeatInterval) && !k.busy {
				k.beatDue = true
				kicks = append(kicks[:beats], l)
			}
			if coarse-k.received.Load() > int64(b.opt.BeatTimeout) {
				silent = append(silent, k)
			}
		}
	}
	next = b.deadlinesLocked(now, next, &do)
	b.mu.nextLook = next
	b.unlock(&do)
	for _, l := range kicks {
		b.kick(l)
	}
	for _, k := range silent {
		b.judge(k)
	}
	return next
}

// judge breaks a link that was silent for too long. Bytes that wait in its
// socket are a sign of life, which our reader has had no time for. What came over
// another socket of the edge shows that the peer lives, and buys a silent one as
// much time again, for its network to mend.
func (b *Backend) judge(k *sock) {
	l := k.l
	limit := b.opt.BeatTimeout
	for _, other := range l.sockets() {
		if other != k && time.Duration(b.now()-other.received.Load()) <= limit {
			limit *= 2
			break
		}
	}
	quiet := time.Duration(b.now() - k.received.Load())
	if quiet <= limit || k.conn.unread() > 0 || l.starved(quiet) {
		return
	}
	err := fmt.Errorf("%w: nothing came for %v, limit %v", errSilent, quiet.Round(time.Millisecond), limit)
	if k.index > 0 {
		err = fmt.Errorf("stream %d (%s): %w", k.index, k.path(), err)
	}
	b.lost(l, err)
}

const starvedLimits = 20 // beat timeouts for which a peer may be silent that has no processor

// starved says that l's peer is of this host and waits for a processor, by the thread whose id
// the death watch's word has. A container may have ids of its own: then it is no peer's.
func (l *link) starved(quiet time.Duration) bool {
	l.b.mu.Lock()
	n := l.lane
	if n == nil || quiet > starvedLimits*l.b.opt.BeatTimeout {
		l.b.mu.Unlock()
		return false
	}
	defer n.ref().unref()
	l.b.mu.Unlock()
	tid := futexWord(n.in.Bytes(), deathListWord).Load() & futex.OwnerID
	return otherproc.Maps(tid, laneName) && otherproc.WantsProcessor(tid)
}

// hasSilentStreamLocked tells whether a further socket of l was silent for longer than a beat
// timeout: only that others are not has saved the edge.
func (l *link) hasSilentStreamLocked() bool {
	return slices.ContainsFunc(l.socks[1:], func(k *sock) bool {
		return time.Duration(l.b.now()-k.received.Load()) > l.b.opt.BeatTimeout
	})
}

// deadlinesLocked breaks the group if an op is past its deadline, and gives
// the earlier of next and the next deadline.
func (b *Backend) deadlinesLocked(now, next time.Time, do *todo) time.Time {
	g := b.mu.group
	if g == nil || g.phase != groupReady {
		return next
	}
	var late *task
	for _, t := range g.pending {
		switch {
		case !t.until.After(now):
			if late == nil || t.seq < late.seq {
				late = t
			}
		case t.until.Before(next):
			next = t.until
		}
	}
	if late == nil {
		return next
	}
	b.breakLocked(g, frame.Cause{
		Code: frame.CodeDeadline, Peer: -1, Kind: late.call.Kind, Seq: late.seq,
		Err: fmt.Errorf("deadline passed; waiting for %s: %w", late.waitsFor(), context.DeadlineExceeded),
	}, do)
	return next
}

// waitsFor names the ranks that t still needs something from.
func (t *task) waitsFor() string {
	if !t.open {
		return "earlier ops"
	}
	s := ""
	for r := range t.peers {
		l := t.group.peers[r]
		for phase := range t.peers[r].in {
			// Over several sockets the last piece may be there, and an earlier one not.
			if in := &t.peers[r].in[phase]; in.used && !(in.finished() && (l == nil || l.stripe.whole(phase))) {
				s += fmt.Sprintf(" %d", r)
				break
			}
		}
	}
	if s == "" {
		return "peers to take what we send"
	}
	return "rank" + s
}
