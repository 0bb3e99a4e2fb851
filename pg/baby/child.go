package baby

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/memfd"
	"github.com/skerry-ft/skerry/internal/monitor"
	"github.com/skerry-ft/skerry/internal/step"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/train/spawn"
)

// A child is one process and the ops it has been given. It serves one epoch.
type child struct {
	opt  *Options
	mem  *memory
	proc *spawn.Process
	pipe *pipe

	segment  *memfd.Segment // what the rings lie in
	listener listener
	mapping  mapping // of the one who issues

	ready      chan struct{} // closed once its backend is open
	configured chan []byte   // the report of its Configure; capacity 1
	gone       chan struct{} // closed once it is reaped and nothing is pending
	broken     chan struct{} // closed with the first cause

	cfg pg.Config // set before msgConfigure is sent

	free sync.Pool // of *pending, for later ops

	mu struct {
		monitor.Monitor // that left became 0

		last     uint64 // op id
		round    int64  // of ops to come
		queue    queue
		issuing  bool // somebody is giving it ops
		pending  map[uint64]*pending
		underWay int // ops queued, being issued, or pending
		left     int // those, and the ones being completed
		sent     map[uint64]bool
		ops      giver
		helper   step.Word32 // where a waiter sleeps, see Help; none: the ring is unmapped
		told     uint64      // messages sent over the socket

		err    error // the first cause
		cause  error // of a local abort
		why    string
		ending bool // told to
		orphan bool // it has ended, or could not be reaped

		configuring bool

		watch watch
	}
}

// pending is an op that the child has.
type pending struct {
	op       *pg.Op
	work     *pg.Work
	deadline time.Time
	round    int64
	staged   []staged
	marks    [][]byte // that it waits for
	ending   bool     // its result has come
}

// staged is a tensor of the caller that was copied.
type staged struct {
	block *block
	host  []byte // copied back here if out
	out   bool
}

// request is what a child is started with.
type request struct {
	Backend string
	Open    pg.Options // without its Log, of which JSON keeps nothing
	Level   zerolog.Level
}

// The descriptors that a child inherits.
const (
	socketFD = spawn.FirstFileFD
	ringFD   = spawn.FirstFileFD + 1
)

// startChild starts a process; it is usable once ready is closed.
func startChild(opt *Options, mem *memory) (_ *child, err error) {
	c := &child{
		opt: opt, mem: mem,
		ready: make(chan struct{}), configured: make(chan []byte, 1), gone: make(chan struct{}), broken: make(chan struct{}),
	}
	defer func() {
		if err == nil {
			return
		}
		if c.pipe != nil {
			c.pipe.close()
		}
		if c.segment != nil {
			err = errors.Join(err, c.segment.Close())
		}
	}()
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	defer ours.Close() // newPipe has a descriptor of its own
	if c.pipe, err = newPipe(ours); err != nil {
		return nil, err
	}
	c.pipe.noFiles = true
	if c.segment, err = memfd.Create("skerry-baby-ring", channelBytes); err != nil {
		return nil, fmt.Errorf("baby: ring for the child: %w", err)
	}
	if err := connect(c.segment, parentSide, &c.mu.ops, &c.listener.turn.results); err != nil {
		return nil, err
	}
	c.mu.helper = c.listener.turn.results.mine.helper
	args, err := json.Marshal(request{opt.Backend, opt.Open, levelOf(opt.Log)})
	if err != nil {
		return nil, fmt.Errorf("baby: options of the child: %w", err)
	}
	c.proc, err = spawn.Start(spawn.Worker{Name: worker, WorldSize: 1, Args: args}, spawn.Options{
		Env: opt.Env, Stdout: opt.Stdout, Stderr: opt.Stderr, Files: []*os.File{theirs, c.segment.File()},
	})
	if err != nil {
		return nil, fmt.Errorf("baby: start child (is baby.Init() called at the top of main?): %w", err)
	}
	c.mu.pending = make(map[uint64]*pending)
	c.mu.sent = make(map[uint64]bool)
	c.mu.watch.init(c.tick)
	return c, nil
}

// levelOf is what the child should log: nothing, if we have no logger.
func levelOf(log zerolog.Logger) zerolog.Level {
	e := log.WithLevel(zerolog.ErrorLevel)
	if e == nil {
		return zerolog.Disabled
	}
	e.Discard()
	return log.GetLevel()
}

// read takes what the child says until it has ended, and then ends it for good.
func (c *child) read() {
	c.listener.ended.Go(func() { c.listener.listen(c) })
	var err error
	for err == nil {
		var b []byte
		if b, err = c.pipe.receive(); err == nil {
			err = c.take(b)
		}
	}
	why := ""
	if !errors.Is(err, io.EOF) {
		why = err.Error()
	}
	c.end(why)
}

// take handles one message.
func (c *child) take(b []byte) error {
	body := cursor{b: b[1:]}
	c.mu.Lock()
	c.mu.watch.heard()
	c.mu.Unlock()
	switch k := kind(b[0]); k {
	case msgReady:
		select {
		case <-c.ready:
			return errors.New("the child was ready twice")
		default:
			close(c.ready)
		}
	case msgConfigured:
		select {
		case c.configured <- append([]byte(nil), body.b...):
		default:
			return errors.New("the child configured itself twice")
		}
	case msgBroken:
		c.fails(decodeFault(body.b, nil))
	case msgDone:
		r := new(result)
		if err := r.read(&body, c.worldSize()); err != nil {
			return err
		}
		return c.done(r, append([]byte(nil), body.b...))
	case msgPong:
	default:
		return fmt.Errorf("message of kind %d from the child", k)
	}
	return nil
}

// tellLocked sends a message over the socket. Ops that are given later reach
// the child's backend after it.
func (c *child) tellLocked(b []byte, file *os.File) {
	c.mu.told++
	c.pipe.send(b, file)
}

// fails remembers the first cause.
func (c *child) fails(err error) {
	c.mu.Lock()
	c.breakLocked(err)
	c.mu.Unlock()
	c.issue()
}

// breakLocked keeps the first cause.
func (c *child) breakLocked(err error) {
	if c.mu.err == nil && err != nil {
		c.mu.err = err
		close(c.broken)
	}
}

// cause is why the group of this child is broken, or nil.
func (c *child) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// done ends one op as the child reports it, with an error if report is one.
func (c *child) done(r *result, report []byte) (mad error) {
	c.mu.Lock()
	c.mu.watch.heard()
	p, cause := c.mu.pending[r.id], c.mu.cause
	switch {
	case p == nil || p.ending:
		mad = fmt.Errorf("the child ended op %d, which is not under way", r.id)
	case len(report) == 0:
		mad = r.check(p.op, c.cfg.WorldSize())
	case len(r.batch) != len(p.op.Batch):
		mad = fmt.Errorf("the child ended %d ops of a batch of %d", len(r.batch), len(p.op.Batch))
	}
	if mad == nil {
		p.ending = true
	}
	c.mu.Unlock()
	if mad != nil {
		return mad
	}
	op := p.op
	op.Seq, op.Epoch, op.Round, op.Source = r.seq, c.cfg.Epoch(), r.round, r.source
	if op.Kind == pg.KindBallot { // it went to the backend: what that says counts, if that is nothing, too
		op.Ballots = append(op.Ballots[:0], r.ballots...)
	}
	for i, sub := range op.Batch {
		sub.Seq, sub.Epoch, sub.Round, sub.Source = r.batch[i].seq, op.Epoch, r.batch[i].round, r.batch[i].source
	}
	err := decodeFault(report, cause)
	c.unstage(p, err == nil, true)
	c.complete(p, r.id, err)
	c.issue() // what waited for the memory of this op
	return nil
}

// complete ends an op, pending under id or not. p is nobody's afterwards.
func (c *child) complete(p *pending, id uint64, err error) {
	c.mu.Lock()
	delete(c.mu.pending, id)
	c.mu.underWay--
	c.mu.Unlock()
	p.work.Complete(err)
	p.work.Release()
	clear(p.staged)
	*p = pending{staged: p.staged[:0]}
	c.free.Put(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listener.completed(c.mu.helper)
	if c.mu.left--; c.mu.left == 0 {
		c.mu.Broadcast()
	}
}

// unstage copies results back, if wanted, and gives staging memory back, or, if
// the child may still touch it, forgets it.
func (c *child) unstage(p *pending, results, free bool) {
	for _, s := range p.staged {
		if s.out && results {
			c.mem.copied.Add(int64(copy(s.host, s.block.bytes)))
		}
		if !free {
			continue
		}
		if seg := c.mem.unstage(s.block); seg != nil {
			c.drop(seg)
		}
	}
}

// drop has the child unmap a segment that no op uses, and unmaps it here.
func (c *child) drop(s *segment) {
	c.mu.Lock()
	if c.mu.sent[s.id] {
		delete(c.mu.sent, s.id)
		c.tellLocked(idMessage(msgDrop, s.id), nil)
	}
	c.mu.Unlock()
	s.mem.Close() // an error would be one of munmap with our own values
}

// kill ends the process at once, for the reason given.
func (c *child) kill(why string) {
	c.mu.Lock()
	c.killLocked(why)
	c.mu.Unlock()
}

func (c *child) killLocked(why string) {
	c.mu.why = cmp.Or(c.mu.why, why)
	_ = c.proc.Signal(syscall.SIGKILL) // it may be gone already
}

// end runs when the socket has ended: it sees to it that the process has, and
// fails what is pending.
func (c *child) end(why string) {
	c.mu.Lock()
	told := c.mu.ending
	c.mu.Unlock()
	if (!told || why != "") && !within(c.opt.slackTime(), c.proc.Done()) { // a process that exits closes its socket first
		c.kill(cmp.Or(why, "its socket had ended, it had not"))
	}
	reaped := c.reap()
	c.pipe.close()
	c.pipe.wait()
	c.listener.end()
	death := c.death(reaped)
	c.mu.Lock()
	c.breakLocked(death)
	c.mu.orphan = true
	c.mu.ops, c.mu.helper = giver{}, step.Word32{}
	c.segment.Close() // an error would be one of munmap with our own values
	lost := c.mu.pending
	c.mu.pending = make(map[uint64]*pending)
	c.mu.watch.stop()
	cause := c.mu.cause
	c.mu.Unlock()
	c.issue()
	for id, p := range lost {
		c.unstage(p, false, reaped)
		if p.op.Kind == pg.KindBallot {
			clear(p.op.Ballots) // only the child knew with which digest the own one went out
		}
		c.complete(p, id, c.lost(p, death, cause))
	}
	close(c.gone)
}

// reap waits until the process is gone. A child on its way out has Grace; after
// SIGKILL there is ReapLimit.
func (c *child) reap() bool {
	return c.endsInGrace(c.proc.Done()) || within(ReapLimit, c.proc.Done())
}

// endsInGrace tells whether done is closed within Grace, and kills the child if not.
func (c *child) endsInGrace(done <-chan struct{}) bool {
	ends := within(c.opt.Grace, done)
	if !ends {
		c.kill(fmt.Sprintf("it had not ended after %v", c.opt.Grace))
	}
	return ends
}

// within tells whether done is closed before limit has passed.
func within(limit time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// death tells how the process ended.
func (c *child) death(reaped bool) *ChildError {
	c.mu.Lock()
	why := c.mu.why
	c.mu.Unlock()
	e := &ChildError{Backend: c.opt.Backend, PID: c.proc.PID(), Why: why, Stderr: c.proc.TailStderr(), Abandoned: !reaped}
	if !reaped {
		return e
	}
	if exit, ok := errors.AsType[*spawn.ExitError](c.proc.Wait(context.Background())); ok {
		e.Code, e.Signal = exit.Code, exit.Signal
	}
	return e
}

// lost is the error of an op that the child took with it. One that is past its deadline
// says so, whoever should have ended it.
func (c *child) lost(p *pending, death error, cause error) error {
	switch {
	case cause != nil:
		death = errors.Join(cause, death)
	case !time.Now().Before(p.deadline):
		death = fmt.Errorf("%w: %w", context.DeadlineExceeded, death)
	}
	return &pg.OpError{
		Op: p.op.Kind, QuorumID: c.cfg.QuorumID, Rank: c.cfg.Rank, Peer: -1, Err: death,
	}
}

// abort breaks the group in the child, which then ends its ops, or is killed. One that has
// no ops, of a Backend that is closed, ends in good order instead: an abort would break ops
// of the other ranks that are done, and not seen to be yet.
func (c *child) abort(cause error) {
	c.mu.Lock()
	c.breakLocked(cause)
	switch {
	case c.mu.cause != nil || c.mu.orphan:
	case c.mu.underWay == 0 && errors.Is(cause, pg.ErrClosed):
		c.mu.cause = cause
	default:
		c.mu.cause = cause
		c.tellLocked(jsonMessage(msgAbort, newFault(cause)), nil)
		c.mu.watch.endBy(time.Now().Add(c.opt.slackTime()))
	}
	c.mu.Unlock()
	c.issue()
}

// leave aborts, waits until no op is under way any more, and tells the child to
// end. It takes at most Slack and ReapLimit.
func (c *child) leave(cause error) {
	c.abort(cause)
	c.mu.Lock()
	idle, left := c.mu.Changed(), c.mu.left
	c.mu.Unlock()
	if left > 0 {
		<-idle // the watch kills a child that does not end its ops
	}
	c.mu.Lock()
	c.mu.ending = true
	c.tellLocked(message(msgClose), nil)
	c.mu.Unlock()
}

// finish waits until a child that was told to end is gone; it is killed when
// that takes longer than Grace.
func (c *child) finish() {
	c.endsInGrace(c.gone)
	<-c.gone
}
