package baby

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// A ref says where a tensor of an op lies.
type ref struct {
	device bool
	count  uint64 // elements
	offset uint64 // bytes into the segment or the device memory

	segment uint64 // host: the id

	index  uint32 // device: which one
	bytes  uint64 // device: of the whole memory
	handle []byte // device: what Export gave
}

const (
	refHost uint8 = iota
	refDevice
)

// maxHandleBytes bounds a handle of device memory; CUDA's has 64.
const maxHandleBytes = 4096

func appendRef(b []byte, r *ref) []byte {
	le := binary.LittleEndian
	if !r.device {
		b = append(b, refHost)
		b = le.AppendUint64(b, r.segment)
		b = le.AppendUint64(b, r.offset)
		return le.AppendUint64(b, r.count)
	}
	b = append(b, refDevice)
	b = le.AppendUint32(b, r.index)
	b = le.AppendUint64(b, r.bytes)
	b = le.AppendUint64(b, r.offset)
	b = le.AppendUint64(b, r.count)
	return appendBytes(b, r.handle)
}

func (c *cursor) ref() ref {
	if c.u8() == refHost {
		return ref{segment: c.u64(), offset: c.u64(), count: c.u64()}
	}
	return ref{device: true, index: c.u32(), bytes: c.u64(), offset: c.u64(), count: c.u64(), handle: c.bytes()}
}

// placed is an op whose tensors are where the child finds them, and for a batch
// its ops. limit is how long it may take from now: the two processes share no
// monotonic clock reading.
type placed struct {
	op      *pg.Op
	dtype   tensor.DType
	limit   time.Duration
	in, out []ref
	batch   []placed
	round   int64
	marks   [][]byte // that it waits for
}

// appendOp writes what the child needs of an op.
func appendOp(b []byte, id uint64, p *placed) []byte {
	b = binary.LittleEndian.AppendUint64(b, id)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.round))
	b = appendPlaced(b, p)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.batch)))
	for i := range p.batch {
		b = appendPlaced(b, &p.batch[i])
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.marks)))
	for _, m := range p.marks {
		b = appendBytes(b, m)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.op.DeviceIDs)))
	for _, id := range p.op.DeviceIDs {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return b
}

func appendPlaced(b []byte, p *placed) []byte {
	le, op := binary.LittleEndian, p.op
	var internal uint8
	if op.Internal() {
		internal = 1
	}
	b = append(b, uint8(op.Kind), uint8(op.Reduce), uint8(p.dtype), internal)
	for _, v := range [...]int64{int64(op.Divisor), int64(op.Root), int64(op.Peer), int64(op.Tag), int64(p.limit)} {
		b = le.AppendUint64(b, uint64(v))
	}
	b = le.AppendUint64(b, math.Float64bits(op.Factor))
	b = appendBytes(b, op.Ballot)
	for _, side := range [2][]ref{p.in, p.out} {
		b = le.AppendUint32(b, uint32(len(side)))
		for i := range side {
			b = appendRef(b, &side[i])
		}
	}
	return b
}

// An order is an op as the child reads it.
type order struct {
	id      uint64
	round   int64
	op      pg.Op
	dtype   tensor.DType
	limit   time.Duration
	in, out []ref
	batch   []order
	marks   [][]byte // in the message's memory
}

func readOrder(c *cursor) (*order, error) {
	o := &order{id: c.u64(), round: int64(c.u64())}
	o.read(c)
	if n := c.count(pg.MaxBatch, "ops in a batch"); n > 0 {
		o.batch = make([]order, n)
	}
	for i := range o.batch {
		o.batch[i].read(c)
	}
	o.readMarks(c)
	for range c.count(maxMarks, "device ids of an op") {
		o.op.DeviceIDs = append(o.op.DeviceIDs, int(int32(c.u32())))
	}
	return o, c.end()
}

// read reads an op without what a batch holds.
func (o *order) read(c *cursor) {
	o.op.Kind, o.op.Reduce, o.dtype = pg.Kind(c.u8()), tensor.ReduceOp(c.u8()), tensor.DType(c.u8())
	if c.u8() != 0 {
		o.op.MarkInternal()
	}
	o.op.Divisor, o.op.Root, o.op.Peer, o.op.Tag = int(c.u64()), int(c.u64()), int(c.u64()), int(c.u64())
	o.limit = time.Duration(c.u64())
	o.op.Factor = c.float()
	o.op.Ballot = append([]byte(nil), c.bytes()...)
	for _, side := range [2]*[]ref{&o.in, &o.out} {
		if n := c.count(pg.MaxTensors, "tensors of an op"); n > 0 {
			*side = make([]ref, n)
		}
		for i := range *side {
			(*side)[i] = c.ref()
		}
	}
}

// appendDone writes the result of an op. If it failed, the report follows.
func appendDone(b []byte, id uint64, op *pg.Op) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, id)
	b = le.AppendUint64(b, op.Seq)
	b = le.AppendUint64(b, uint64(op.Round))
	b = le.AppendUint64(b, uint64(op.Source))
	b = le.AppendUint32(b, uint32(len(op.Ballots)))
	for i := range op.Ballots {
		e := &op.Ballots[i]
		var flags uint8
		if e.Here {
			flags |= 1
		}
		if e.Digest.Valid {
			flags |= 2
		}
		b = le.AppendUint32(append(b, flags), e.Digest.Sum)
		b = appendBytes(b, e.Payload)
	}
	b = le.AppendUint32(b, uint32(len(op.Batch)))
	for _, sub := range op.Batch {
		b = le.AppendUint64(b, sub.Seq)
		b = le.AppendUint64(b, uint64(sub.Round))
		b = le.AppendUint64(b, uint64(sub.Source))
	}
	return b
}

// A result is the end of an op as the parent reads it.
type result struct {
	id      uint64
	seq     uint64
	round   int64
	source  int
	ballots []pg.BallotEntry
	batch   []result // seq, round and source of each
}

// read reads one into r's memory; ballots beyond world are refused. What
// follows is left in c.
func (r *result) read(c *cursor, world int) error {
	*r = result{id: c.u64(), seq: c.u64(), round: int64(c.u64()), source: int(c.u64())}
	for range c.count(world, "ballots") {
		flags := c.u8()
		e := pg.BallotEntry{Here: flags&1 != 0, Digest: pg.Digest{Valid: flags&2 != 0, Sum: c.u32()}}
		e.Payload = append(e.Payload, c.bytes()...)
		r.ballots = append(r.ballots, e)
	}
	for range c.count(pg.MaxBatch, "results of a batch") {
		if c.err != nil {
			break
		}
		r.batch = append(r.batch, result{seq: c.u64(), round: int64(c.u64()), source: int(c.u64())})
	}
	return c.err
}

// check refuses what op cannot have given when it succeeded.
func (r *result) check(op *pg.Op, world int) error {
	if len(r.batch) != len(op.Batch) {
		return fmt.Errorf("the child ended %d ops of a batch of %d", len(r.batch), len(op.Batch))
	}
	if op.Kind == pg.KindBallot && len(r.ballots) != world {
		return fmt.Errorf("the child gave %d ballots of a world of %d", len(r.ballots), world)
	}
	if op.Kind == pg.KindRecv && (r.source < 0 || r.source >= world) {
		return fmt.Errorf("the child received from rank %d of %d", r.source, world)
	}
	for i, sub := range op.Batch {
		if err := r.batch[i].check(sub, world); err != nil {
			return err
		}
	}
	return nil
}
