package tcp

import (
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/pg"
)

// slot is where the payload of one data frame goes, and what it is for. A slot
// without a task is of a frame that is dropped, or that came before its op.
type slot struct {
	task    *task // touched
	group   *group
	dst     []byte
	buf     *buf     // dst, if it is pooled
	crc     *slotCRC // told the checksum, if not nil
	cell    int      // of the fold, or -1
	early   bool     // keep it until its op is there
	message *message // point-to-point
}

// readLoop is the reader.
func (l *link) readLoop() {
	err := l.preamble()
	for err == nil {
		err = l.readFrame()
	}
	l.b.lost(l, err)
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.dropEarlyLocked() // nothing comes any more, and a doomed group takes nothing
}

// preamble exchanges magic and nonces, within DialTimeout.
func (l *link) preamble() error {
	if l.dialed {
		return nil // done when it was dialled
	}
	c := l.conn.tcp
	if err := c.SetDeadline(time.Now().Add(l.b.opt.DialTimeout)); err != nil {
		return err
	}
	if err := l.exchangePreamble(); err != nil {
		return err
	}
	l.received.Store(l.b.now())
	l.b.mu.Lock()
	l.greeted = true
	l.b.mu.Unlock()
	return c.SetDeadline(time.Time{})
}

func (l *link) readFrame() error {
	if err := l.fill(headerBytes); err != nil {
		return err
	}
	var h header
	if err := h.decode(l.peekBytes(headerBytes)); err != nil {
		return err
	}
	l.in.r += headerBytes
	switch h.typ {
	case frameData:
		return l.readData(&h)
	case frameBeat:
		return nil
	case frameCredit:
		l.credited(&h)
		return nil
	case frameTake:
		l.taken(&h)
		return nil
	}
	n := int(h.length)
	if err := l.fill(n); err != nil {
		return err
	}
	p := l.peekBytes(n)
	l.in.r += n
	if got := checksum(p); got != h.crc {
		return fmt.Errorf("%w: %v payload has checksum %08x, want %08x", ErrCorrupt, h.typ, got, h.crc)
	}
	if h.typ == frameHello {
		return l.readHello(p)
	}
	return l.readAbort(&h, p)
}

func (l *link) peekBytes(n int) []byte { return l.in.buf[l.in.r : l.in.r+n] }

// fill makes n bytes available in the buffer; n is at most half of it.
func (l *link) fill(n int) error {
	in := &l.in
	for in.w-in.r < n {
		if in.r == in.w {
			in.r, in.w = 0, 0
		} else if len(in.buf)-in.r < n {
			in.w = copy(in.buf, in.buf[in.r:in.w])
			in.r = 0
		}
		got, err := l.conn.read(in.buf[in.w:], nil)
		if err := l.readError(err); err != nil {
			return err
		}
		in.w += got
	}
	return nil
}

// readError clears an interrupt, which is no error, and notes that bytes came.
func (l *link) readError(err error) error {
	if err == nil {
		l.received.Store(l.b.now())
		return nil
	}
	if interrupted(err) {
		return l.resumeRead()
	}
	return fmt.Errorf("read: %w", err)
}

// resumeRead goes on reading after an interrupt; a link that leaves has its time.
func (l *link) resumeRead() error {
	l.b.mu.Lock()
	leaving, by := l.leaving, l.leaveBy
	l.b.mu.Unlock()
	switch {
	case !leaving:
		return l.conn.clearRead()
	case time.Now().Before(by):
		return l.conn.tcp.SetReadDeadline(by)
	}
	return errLeft
}

// readData receives one data frame.
func (l *link) readData(h *header) error {
	s := l.place(h)
	if s.dst == nil && h.length > 0 {
		return l.discard(int(h.length))
	}
	whole, err := l.readInto(&s)
	if err == nil && whole {
		if got := checksum(s.dst); got != h.crc {
			err = fmt.Errorf("%w: payload has checksum %08x, want %08x (%v seq %d offset %d)",
				ErrCorrupt, got, h.crc, h.call.kind, h.seq, h.offset)
		}
	}
	if err != nil {
		l.letGo(&s, err)
		return err
	}
	if whole {
		l.arrived(h, &s)
	}
	return nil
}

// readInto fills s.dst. If the op fails meanwhile it lets go of it, reads the
// rest of the payload into nothing, and gives false.
func (l *link) readInto(s *slot) (whole bool, err error) {
	in, dst := &l.in, s.dst
	n := copy(dst, in.buf[in.r:in.w])
	in.r += n
	for dst = dst[n:]; len(dst) > 0; {
		// The buffer is empty here: read what follows the payload into it.
		in.r, in.w = 0, 0
		got, err := l.conn.read(dst, in.buf[:aheadBytes])
		if err != nil {
			if err := l.readError(err); err != nil {
				return false, err
			}
			if l.letGoIfFailed(s) {
				return false, l.discard(len(dst))
			}
			continue
		}
		l.received.Store(l.b.now())
		n := min(got, len(dst))
		in.w = got - n
		dst = dst[n:]
	}
	return true, nil
}

// discard reads n bytes into nothing.
func (l *link) discard(n int) error {
	in := &l.in
	for n > 0 {
		if in.r == in.w {
			if err := l.fill(1); err != nil {
				return err
			}
		}
		k := min(n, in.w-in.r)
		in.r += k
		n -= k
	}
	return nil
}

// letGoIfFailed lets go of s if its op has failed.
func (l *link) letGoIfFailed(s *slot) bool {
	l.b.mu.Lock()
	failed := s.task != nil && s.task.err != nil || s.group != nil && s.group.phase == groupBroken
	l.b.mu.Unlock()
	if failed {
		l.letGo(s, nil)
	}
	return failed
}

// letGo gives back what s holds. With an error, the link is lost first, so that
// the op does not look complete.
func (l *link) letGo(s *slot, err error) {
	var do todo
	l.b.mu.Lock()
	if err != nil {
		l.b.lostLocked(l, err, &do)
	}
	if s.task != nil {
		l.b.untouchLocked(s.task, &do)
	}
	l.b.mu.Unlock()
	l.b.pool.put(s.buf)
	s.task, s.buf = nil, nil
	l.b.do(&do)
}

// arrived is called when the payload of h is in its slot and checked.
func (l *link) arrived(h *header, s *slot) {
	b := l.b
	var do todo
	switch {
	case s.early:
		b.mu.Lock()
		late, err := l.keepLocked(h, s, &do)
		if err != nil {
			b.breakLocked(s.group, l.mismatchCause(h, err), &do)
		}
		b.mu.Unlock()
		b.do(&do)
		if late.slot.task != nil {
			l.land(&late)
		}
	case s.message != nil:
		b.mu.Lock()
		l.settleMessageLocked(h, s, &do)
		b.mu.Unlock()
		b.do(&do)
	case s.task != nil:
		l.settle(h.crc, s)
	}
}

// land brings a frame that came before its op to its place.
func (l *link) land(late *lateCopy) {
	if late.from != nil {
		copy(late.slot.dst, late.from.b)
		l.b.pool.put(late.from)
		late.from = nil
	}
	l.settle(late.crc, &late.slot)
}

// settle accounts for a piece that is in place, folds its cell if that was the
// last part of it, and lets go of the op.
func (l *link) settle(crc uint32, s *slot) {
	b, t := l.b, s.task
	b.mu.Lock()
	var do todo
	fold := l.settleLocked(crc, s, &do)
	b.mu.Unlock()
	b.do(&do)
	if fold {
		b.foldCell(t, s.cell)
	}
	b.pool.put(s.buf)
	s.buf, s.task = nil, nil
	do = todo{}
	b.mu.Lock()
	b.untouchLocked(t, &do)
	b.mu.Unlock()
	b.do(&do)
}

func (l *link) settleLocked(crc uint32, s *slot, do *todo) (fold bool) {
	t := s.task
	t.need--
	s.crc.set(crc)
	if t.relayLocked(l.rank) {
		do.kickAll = t.group
	}
	if s.cell < 0 {
		return false
	}
	if t.call.kind == pg.KindBallot {
		t.takeBallot(l.rank, s.dst)
		l.oweLocked(classCollective, len(s.dst)+headerBytes, do)
		return false
	}
	if t.err != nil {
		return false
	}
	f := &t.fold
	f.parts[s.cell*f.world+l.rank] = s.buf
	s.buf = nil
	f.cells[s.cell].have++
	return f.cells[s.cell].have == f.world-1
}

// credited takes a credit frame.
func (l *link) credited(h *header) {
	b := l.b
	b.mu.Lock()
	_, ok := l.currentLocked(h.epoch)
	if ok && int(h.phase) < classes && h.total <= maxWindowBytes {
		f := &l.flow[h.phase]
		f.credit = min(f.credit+int(h.total), l.hello.window[h.phase])
	}
	b.mu.Unlock()
	b.kick(l)
}
