package tcp

import (
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
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
func (k *sock) readLoop() {
	err := k.preamble()
	for err == nil {
		err = k.readFrame()
	}
	k.ended(err)
	b := k.l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	// Nothing comes any more, and a doomed group takes nothing.
	if k.index > 0 {
		k.dropEarlyLocked()
		return
	}
	k.l.dropEarlyLocked()
}

// preamble exchanges magic and nonces, within DialTimeout, and finds out whether
// the peer opened an edge or one more socket of an edge.
func (k *sock) preamble() error {
	if k.l.dialed {
		return nil // done when it was dialled
	}
	b, c := k.l.b, k.conn.tcp
	if err := c.SetDeadline(time.Now().Add(b.opt.DialTimeout)); err != nil {
		return err
	}
	err := k.sealAccepted()
	joins := false
	if err == nil {
		joins, err = k.exchangePreamble()
	}
	if err != nil {
		k.strange(err)
		return err
	}
	k.received.Store(b.now())
	k.enlarge(helloBytes)
	b.wg.Go(k.writeLoop)
	if joins {
		return k.join()
	}
	b.mu.Lock()
	k.l.greetLocked()
	b.mu.Unlock()
	return c.SetDeadline(time.Time{})
}

func (k *sock) readFrame() error {
	if err := k.fill(frame.HeaderBytes); err != nil {
		return err
	}
	var h frame.Header
	if err := h.Decode(k.bytes(frame.HeaderBytes)); err != nil {
		return err
	}
	if over, err := k.screen(&h); over || err != nil {
		return err
	}
	switch h.Type {
	case frame.TypeData:
		return k.readData(&h)
	case frame.TypeBeat:
		return nil
	case frame.TypeCredit:
		k.credited(&h)
		return nil
	}
	if k.index > 0 {
		return fmt.Errorf("%w: %v frame on stream %d", ErrCorrupt, h.Type, k.index)
	}
	if h.Type == frame.TypeTake {
		k.l.taken(&h)
		return nil
	}
	n := int(h.Length)
	if err := k.fill(n); err != nil {
		return err
	}
	p := k.bytes(n)
	if got := frame.Checksum(p); got != h.CRC {
		return fmt.Errorf("%w: %v payload has checksum %08x, want %08x", ErrCorrupt, h.Type, got, h.CRC)
	}
	if h.Type == frame.TypeHello {
		return k.l.readHello(p)
	}
	return k.l.readAbort(&h, p)
}

// bytes are the next n, which fill has made available. They stay until it is called
// again.
func (k *sock) bytes(n int) []byte {
	k.in.r += n
	return k.in.buf[k.in.r-n : k.in.r]
}

// fill makes n bytes available in the buffer; n is at most its size.
func (k *sock) fill(n int) error {
	in := &k.in
	for in.w-in.r < n {
		if in.r == in.w {
			in.r, in.w = 0, 0
		} else if len(in.buf)-in.r < n {
			in.w = copy(in.buf, in.buf[in.r:in.w])
			in.r = 0
		}
		got, err := k.read(in.buf[in.w:], nil)
		if err := k.readError(err); err != nil {
			return err
		}
		in.w += got
	}
	return nil
}

// read fills a, then b, with what is there; it waits for at least one byte.
func (k *sock) read(a, b []byte) (int, error) {
	if err := k.fallen(); err != nil {
		return 0, err
	}
	return k.conn.read(a, b)
}

// readError clears an interrupt, which is no error, and notes that bytes came.
func (k *sock) readError(err error) error {
	if err == nil {
		k.received.Store(k.l.b.now())
		return nil
	}
	if interrupted(err) {
		return k.resumeRead()
	}
	return fmt.Errorf("read: %w", err)
}

// resumeRead goes on reading after an interrupt; a link that leaves has its time.
func (k *sock) resumeRead() error {
	l := k.l
	l.b.mu.Lock()
	leaving, by := l.leaving, l.leaveBy
	l.b.mu.Unlock()
	switch {
	case !leaving:
		return k.conn.tcp.SetReadDeadline(time.Time{})
	case time.Now().Before(by):
		return k.conn.tcp.SetReadDeadline(by)
	}
	return errLeft
}

// readData receives one data frame.
func (k *sock) readData(h *frame.Header) error {
	if k.index == 0 {
		return k.readPayload(h)
	}
	if frame.ClassOf(h.Call.Kind) != frame.ClassCollective {
		return fmt.Errorf("%w: frame of %v on stream %d", ErrCorrupt, h.Call, k.index)
	}
	if err := k.readPayload(h); err != nil {
		return err
	}
	b := k.l.b
	b.mu.Lock()
	k.countedLocked(h.Epoch)
	b.mu.Unlock()
	return nil
}

func (k *sock) readPayload(h *frame.Header) error {
	s := k.l.place(h)
	if s.dst == nil && h.Length > 0 {
		return k.discard(int(h.Length))
	}
	whole, err := k.readInto(&s)
	if err == nil && whole {
		if got := frame.Checksum(s.dst); got != h.CRC {
			err = fmt.Errorf("%w: payload has checksum %08x, want %08x (%v seq %d offset %d)",
				ErrCorrupt, got, h.CRC, h.Call.Kind, h.Seq, h.Offset)
		}
	}
	if err != nil {
		k.letGo(&s, err)
		return err
	}
	if whole {
		k.arrived(h, &s)
	}
	return nil
}

// readInto fills s.dst. If the op fails meanwhile it lets go of it, reads the
// rest of the payload into nothing, and gives false.
func (k *sock) readInto(s *slot) (whole bool, err error) {
	in, dst := &k.in, s.dst
	n := copy(dst, in.buf[in.r:in.w])
	in.r += n
	for dst = dst[n:]; len(dst) > 0; {
		// The buffer is empty here: read what follows the payload into it.
		in.r, in.w = 0, 0
		got, err := k.read(dst, in.buf[:aheadBytes])
		if err != nil {
			if err := k.readError(err); err != nil {
				return false, err
			}
			if k.letGoIfFailed(s) {
				return false, k.discard(len(dst))
			}
			continue
		}
		k.received.Store(k.l.b.now())
		if k.index > 0 {
			k.l.stripe.moved.Add(1)
		}
		n := min(got, len(dst))
		in.w = got - n
		dst = dst[n:]
	}
	return true, nil
}

// discard reads n bytes into nothing.
func (k *sock) discard(n int) error {
	in := &k.in
	for n > 0 {
		if in.r == in.w {
			if err := k.fill(1); err != nil {
				return err
			}
		}
		got := min(n, in.w-in.r)
		in.r += got
		n -= got
	}
	return nil
}

// letGoIfFailed lets go of s if its op has failed.
func (k *sock) letGoIfFailed(s *slot) bool {
	b := k.l.b
	b.mu.Lock()
	failed := s.task != nil && s.task.err != nil || s.group != nil && s.group.phase == groupBroken
	b.mu.Unlock()
	if failed {
		k.letGo(s, nil)
	}
	return failed
}

// letGo gives back what s holds. With an error, the link is lost first, so that
// the op does not look complete; but see ended about further sockets.
func (k *sock) letGo(s *slot, err error) {
	var do todo
	l := k.l
	b := l.b
	b.mu.Lock()
	if err != nil && (k.index == 0 || errors.Is(err, ErrCorrupt)) {
		b.lostLocked(l, err, &do)
	}
	if s.task != nil {
		b.untouchLocked(s.task, &do)
	}
	b.pool.put(s.buf)
	s.task, s.buf = nil, nil
	b.unlock(&do)
}

// arrived is called when the payload of h is in its slot and checked.
func (k *sock) arrived(h *frame.Header, s *slot) {
	l := k.l
	b := l.b
	var do todo
	switch {
	case s.early:
		b.mu.Lock()
		late, err := k.keepLocked(h, s, &do)
		if err != nil {
			b.breakLocked(s.group, l.mismatchCause(h, err), &do)
		}
		b.unlock(&do)
		if late.slot.task != nil {
			l.land(&late)
		}
	case s.message != nil:
		b.mu.Lock()
		l.settleMessageLocked(h, s, &do)
		b.unlock(&do)
	case s.task != nil:
		l.settle(h.CRC, s)
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
	b.unlock(&do)
	if fold {
		b.foldCell(t, s.cell)
	}
	b.pool.put(s.buf)
	s.buf, s.task = nil, nil
	do = todo{}
	b.mu.Lock()
	b.untouchLocked(t, &do)
	b.unlock(&do)
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
	if t.call.Kind == pg.KindBallot {
		t.takeBallot(l.rank, s.dst)
		l.oweLocked(frame.ClassCollective, len(s.dst)+frame.HeaderBytes, do)
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
func (k *sock) credited(h *frame.Header) {
	l := k.l
	b := l.b
	b.mu.Lock()
	if l.currentLocked(h.Epoch) != nil && int(h.Phase) < frame.Classes && h.Total <= frame.MaxWindowBytes {
		l.stripe.open = true // whoever gives credit has our Hello
		f := &l.flow[h.Phase]
		f.credit = min(f.credit+int(h.Total), int(l.hello.Window[h.Phase]))
	}
	b.mu.Unlock()
	b.kick(l)
}
