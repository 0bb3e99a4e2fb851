package baby

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/internal/memfd"
	"github.com/skerry-ft/skerry/internal/step"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store/certs"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/spawn"
)

// A server is the child's side: one backend, one epoch, the parent's socket.
type server struct {
	backend pg.Backend
	pipe    *pipe
	config  pg.Config
	tasks   sync.WaitGroup

	ring    *memfd.Segment
	over    step.Bool // obeyRing is to end
	devices devices

	said said // what came over the socket

	// Owned by the ring's reader.
	round   int64
	rounded bool // the backend was told a round

	out struct { // results
		sync.Mutex

		giver
		scratch []byte
	}

	// Owned by the reader of the socket.
	epoch  pg.Epoch           // of the Configure that came
	giveUp context.CancelFunc // of its wait for certificates; nil: none came

	broken sync.Once // the parent is told
}

// serve is the life of a child.
func serve(_ context.Context, w spawn.Worker) error {
	// Both are the trainer's to answer: Ctrl-C and Slurm's SIGTERM reach all
	// processes of a group. Our order to end is a message, or the socket's end.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	var req request
	if err := json.Unmarshal(w.Args, &req); err != nil {
		return fmt.Errorf("baby: read what to run: %w", err)
	}
	f := os.NewFile(socketFD, "parent")
	p, err := newPipe(f)
	f.Close()
	if err != nil {
		return err
	}
	syscall.CloseOnExec(ringFD)
	ring, err := memfd.FromFile(os.NewFile(ringFD, "ring"))
	if err != nil {
		return err
	}
	req.Open.Log = logline.JSON(os.Stderr).Level(req.Level).With().Int("child_pid", os.Getpid()).Logger()
	b, err := pg.Open(req.Backend, req.Open)
	if err != nil {
		return err
	}
	s := &server{backend: b, pipe: p, ring: ring}
	ops := new(taker)
	if err := connect(ring, childSide, &s.out.giver, ops); err != nil {
		return err
	}
	s.said.init()
	var bad error
	s.tasks.Go(func() { bad = s.obeyRing(ops) })
	p.send(message(msgReady), nil)
	life, end := context.WithCancelCause(context.Background())
	err = s.run(life)
	end(pg.ErrClosed)
	s.over.Store(true)
	ops.mine.wake()
	s.said.end()
	err = errors.Join(err, s.backend.Close())
	s.tasks.Wait()
	err = errors.Join(err, bad)
	p.flush.Wait() // the last results are on their way
	return err
}

// run obeys until the parent says stop, or is gone. A Configure ends with life, too.
func (s *server) run(life context.Context) error {
	for {
		b, err := s.pipe.receive()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case kind(b[0]) == msgClose:
			return nil
		}
		if err := s.obey(life, kind(b[0]), &cursor{b: b[1:]}); err != nil {
			return err
		}
		s.said.next()
	}
}

func (s *server) obey(life context.Context, k kind, c *cursor) error {
	switch k {
	case msgConfigure:
		return s.configure(life, c)
	case msgOp:
		o, err := readOrder(c)
		if err != nil {
			return err
		}
		s.said.addOp(o)
		return nil
	case msgAbort:
		return s.abort(c.b)
	case msgSegment:
		return s.addSegment(c)
	case msgDrop:
		id := c.u64()
		if seg := s.said.takeSegment(id); seg != nil {
			return seg.Close()
		}
		return c.end()
	case msgUnshare:
		return s.devices.drop(c.b)
	case msgPing:
		if s.said.moves() {
			s.pipe.send(message(msgPong), nil)
		}
		return nil
	default:
		return fmt.Errorf("baby: message of kind %d from the parent", k)
	}
}

func (s *server) configure(life context.Context, c *cursor) error {
	if err := json.Unmarshal(c.b, &s.config); err != nil {
		return fmt.Errorf("baby: read config: %w", err)
	}
	opening, give := context.WithTimeout(life, filesPatience)
	s.epoch, s.giveUp = s.config.Epoch(), give
	s.tasks.Go(func() {
		err := s.openTLS(opening)
		give()
		if err == nil {
			err = s.backend.Configure(life, s.config)
		}
		var report []byte
		if err != nil {
			report, _ = json.Marshal(newFault(err)) // plain strings and numbers
		}
		s.pipe.send(message(msgConfigured, report...), nil)
		if err == nil {
			s.watch(life)
		}
	})
	return nil
}

// A renewal writes one file after the other. filesPatience is how long a child, which
// has no older pair to go on with, waits for files that agree; it looks each filesPause.
const (
	filesPatience = 5 * time.Second
	filesPause    = 50 * time.Millisecond
)

// openTLS reads the files of the parent's certificates, as they are now. It waits for
// those that are no good yet until ctx ends, and then says why they are not.
func (s *server) openTLS(ctx context.Context) error {
	if s.config.TLS == nil {
		return nil
	}
	for {
		t, err := certs.Open(s.config.TLS.Files)
		if err == nil {
			s.config.TLS = t
			return nil
		}
		if backoff.Sleep(ctx, filesPause) != nil {
			return fmt.Errorf("baby: %w", err)
		}
	}
}

// brokenPoll is how often a child looks whether its group has broken while no op
// was pending, if its backend does not tell (pg.Broken).
const brokenPoll = 10 * time.Millisecond

// watch tells the parent when the group breaks.
func (s *server) watch(life context.Context) {
	tick := time.NewTicker(brokenPoll)
	defer tick.Stop()
	poll := tick.C
	broken := pg.BrokenOf(s.backend, s.config.Epoch())
	if broken != nil {
		poll = nil
	}
	for {
		select {
		case <-life.Done():
			return
		case <-broken:
		case <-poll:
		}
		if s.report() || broken != nil {
			return
		}
	}
}

// report tells the parent, once, that the group is broken, if it is.
func (s *server) report() bool {
	err := s.backend.Err()
	if err == nil {
		return false
	}
	s.broken.Do(func() { s.pipe.send(jsonMessage(msgBroken, newFault(err)), nil) })
	return true
}

func (s *server) abort(b []byte) error {
	err := decodeFault(b, nil)
	if err == nil {
		return errors.New("baby: abort without a cause")
	}
	if s.giveUp != nil {
		s.giveUp()
		s.backend.Abort(s.epoch, err)
	}
	return nil
}

func (s *server) addSegment(c *cursor) error {
	id, size := c.u64(), c.u64()
	if err := c.end(); err != nil {
		return err
	}
	f, err := s.pipe.takeFile()
	if err != nil {
		return err
	}
	seg, err := memfd.FromFile(f)
	if err != nil {
		return fmt.Errorf("baby: map segment %d: %w", id, err)
	}
	if uint64(len(seg.Bytes())) != size {
		return fmt.Errorf("baby: segment %d has %d bytes, want %d", id, len(seg.Bytes()), size)
	}
	s.said.addSegment(id, seg)
	return nil
}

// submit starts an op and has its end reported.
func (s *server) submit(o *order) (*pg.Work, error) {
	err := s.fill(o)
	for i := range o.batch {
		o.op.Batch = append(o.op.Batch, &o.batch[i].op)
		err = errors.Join(err, s.fill(&o.batch[i]))
	}
	if err != nil {
		return nil, s.refuse(o, err)
	}
	s.setRound(o.round)
	return s.start(o), nil
}

// setRound tells the backend of a new round, in the order of the ops.
func (s *server) setRound(round int64) {
	if s.rounded && s.round == round {
		return
	}
	s.round, s.rounded = round, true
	if r, ok := s.backend.(pg.Rounder); ok {
		r.SetRound(round)
	}
}

// fill makes the tensors of an op.
func (s *server) fill(o *order) error {
	op := &o.op
	op.Deadline = time.Now().Add(o.limit)
	op.In, op.Out = make([]tensor.Tensor, len(o.in)), make([]tensor.Tensor, len(o.out))
	for side, refs := range [2][]ref{o.in, o.out} {
		for i := range refs {
			t, err := s.tensor(&refs[i], o.dtype)
			if err != nil {
				return err
			}
			[2][]tensor.Tensor{op.In, op.Out}[side][i] = t
		}
	}
	return nil
}

// refuse ends an op whose device memory cannot be opened here.
func (s *server) refuse(o *order, err error) error {
	if !errors.Is(err, pg.ErrUnsupported) {
		return err
	}
	s.done(o, err)
	return nil
}

// done reports the end of an op: success in the ring, if that has room, all else
// over the socket, behind what broke the group.
func (s *server) done(o *order, err error) {
	var report []byte
	if err != nil {
		s.report()
		report, _ = json.Marshal(newFault(err)) // plain strings and numbers
	}
	s.out.Lock()
	defer s.out.Unlock()
	s.out.scratch = appendDone(s.out.scratch[:0], o.id, &o.op)
	n := len(s.out.scratch)
	if err == nil && n <= maxRecordBytes {
		if ok, err := s.out.room(n); ok && err == nil {
			s.out.put(recordDone, 0, s.out.scratch)
			s.out.peer.wake()
			return
		}
	}
	s.pipe.send(message(msgDone, append(s.out.scratch, report...)...), nil)
}

func (s *server) tensor(r *ref, dtype tensor.DType) (tensor.Tensor, error) {
	n := r.count * uint64(dtype.Size())
	if r.device {
		return s.deviceTensor(r, dtype, n)
	}
	if r.count == 0 {
		return tensor.New(dtype, 0), nil
	}
	seg := s.said.segment(r.segment)
	if seg == nil {
		return tensor.Tensor{}, fmt.Errorf("baby: op on segment %d, which never came", r.segment)
	}
	b := seg.Bytes()
	if r.offset > uint64(len(b)) || n > uint64(len(b))-r.offset {
		return tensor.Tensor{}, fmt.Errorf("baby: op on bytes %d to %d of a segment of %d", r.offset, r.offset+n, len(b))
	}
	return tensor.FromBytes(dtype, b[r.offset:r.offset+n:r.offset+n], int(r.count))
}
