package tcp

import "github.com/skerry-ft/skerry/internal/logkey"

// todo is what a state change leaves to be done once the mutex is released:
// whatever makes a system call, runs a caller's function, or takes the mutex
// again. The zero value is nothing.
type todo struct {
	broken  *group  // log why
	kickAll *group  // its links may have something to send
	kick    *link   // so may this one
	done    *task   // complete this op
	more    []*task // and these
	advance *group  // the worker may start the next collective
	close   []*link // close these sockets now
	lanes   []*lane // let go of these
	leave   []*link // and these once what is queued has gone out
}

// finish notes that t is complete.
func (d *todo) finish(t *task) {
	if d.done == nil {
		d.done = t
		return
	}
	d.more = append(d.more, t)
}

// wake notes that l has something to send.
func (d *todo) wake(l *link) {
	switch {
	case d.kick == nil:
		d.kick = l
	case d.kick != l:
		d.kickAll = l.group
	}
}

// unlock releases the mutex and does what d says.
func (b *Backend) unlock(d *todo) {
	b.mu.Unlock()
	if d.kick != nil {
		b.kick(d.kick)
	}
	if d.kickAll != nil {
		b.kickGroup(d.kickAll)
	}
	for _, l := range d.close {
		l.shut()
	}
	for _, n := range d.lanes {
		n.unref()
		b.lanesChanged()
	}
	for _, l := range d.leave {
		b.leave(l)
	}
	if d.done != nil {
		b.complete(d.done)
		for _, t := range d.more {
			b.complete(t)
		}
	}
	if g := d.broken; g != nil { // last: a slow log must hold up nobody
		b.opt.Logger.Debug().Int64(logkey.QuorumID, g.epoch.QuorumID).Int(logkey.ReplicaRank, g.rank).
			Bool("first", g.cause.First).Err(g.err).Msg("group broken")
	}
	if d.advance != nil {
		b.work.poke()
	}
}

// kickGroup kicks all links of a group that is or was ready: its peers do not
// change any more.
func (b *Backend) kickGroup(g *group) {
	for _, l := range g.peers {
		if l != nil {
			b.kick(l)
		}
	}
}

// complete tells the caller that t's op is done and recycles t. Nothing may
// refer to t but the caller of complete.
func (b *Backend) complete(t *task) {
	w, err := t.work, t.err
	b.recycle(t)
	b.pending.Add(-1)
	w.Complete(err)
	w.Release()
	b.live.Done()
}

// nudge has a goroutine look again. Its capacity is 1.
type nudge chan struct{}

func (n nudge) poke() {
	select {
	case n <- struct{}{}:
	default: // it will look anyway
	}
}
