package trace

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// State is how far an op has come.
type State string

// The states of a traced op.
const (
	Scheduled State = "scheduled" // submitted; an earlier collective is under way
	Started   State = "started"
	Done      State = "done"
	Failed    State = "failed"
)

// record is one op in the ring.
type record struct {
	number uint64 // of all ops, from 1
	place  uint64 // among the collectives of the epoch, from 1; 0: point-to-point
	batch  uint64 // number of the batch's first op; 0: none
	seq    uint64 // the backend's, once it is done

	epoch           pg.Epoch
	round           int64
	kind            pg.Kind
	dtype           tensor.DType
	reduce          tensor.ReduceOp
	root, peer, tag int
	dims            int   // number of dimensions of the first tensor
	shape           []int // those, if they are not one; the memory stays the record's
	count           int   // its elements
	tensors         int
	inBytes         int
	outBytes        int

	state                    State
	scheduled, started, done time.Duration // since the ring's origin
	err                      error
}

// ring holds the last ops. Guarded by its owner.
type ring struct {
	records  []record
	last     uint64 // number of the newest
	epoch    pg.Epoch
	places   uint64 // collectives of the epoch
	underWay int    // collectives that are not done
	lost     int    // ops overwritten while they were pending
}

// begin starts an epoch.
func (r *ring) begin(e pg.Epoch) { r.epoch, r.places, r.underWay = e, 0, 0 }

// at is the record of an op, or nil if it was overwritten.
func (r *ring) at(number uint64) *record {
	rec := &r.records[number%uint64(len(r.records))]
	if rec.number != number {
		return nil
	}
	return rec
}

// submitted records op, or every op of a batch, and returns the first number.
func (r *ring) submitted(op *pg.Op, now time.Duration) uint64 {
	if op.Kind != pg.KindBatch || len(op.Batch) == 0 {
		r.add(op, now, 0)
		return r.last
	}
	first := r.last + 1
	for _, sub := range op.Batch {
		if sub != nil {
			r.add(sub, now, first)
		}
	}
	return first
}

func (r *ring) add(op *pg.Op, now time.Duration, batch uint64) {
	r.last++
	rec := &r.records[r.last%uint64(len(r.records))]
	if rec.number > 0 && (rec.state == Scheduled || rec.state == Started) {
		r.lost++
	}
	*rec = record{
		shape:  rec.shape[:0],
		number: r.last, batch: batch, epoch: r.epoch, kind: op.Kind, reduce: op.Reduce,
		root: op.Root, peer: op.Peer, tag: op.Tag, state: Scheduled, scheduled: now,
	}
	for side, tensors := range [2][]tensor.Tensor{op.In, op.Out} {
		rec.tensors = max(rec.tensors, len(tensors))
		for i := range tensors {
			if rec.dtype == tensor.Invalid {
				rec.dtype, rec.dims, rec.count = tensors[i].DType(), tensors[i].NumDims(), tensors[i].Len()
				if rec.dims != 1 {
					rec.shape = tensors[i].AppendShape(rec.shape)
				}
			}
			if side == 0 {
				rec.inBytes += tensors[i].NumBytes()
			} else {
				rec.outBytes += tensors[i].NumBytes()
			}
		}
	}
	if op.Kind.PointToPoint() {
		rec.start(now)
		return
	}
	r.places++
	rec.place = r.places
	if r.underWay++; r.underWay == 1 {
		rec.start(now)
	}
}

func (rec *record) start(now time.Duration) { rec.state, rec.started = Started, now }

// ended records how the op, or batch, with that number ended.
func (r *ring) ended(number uint64, op *pg.Op, now time.Duration, err error) {
	if op.Kind != pg.KindBatch || len(op.Batch) == 0 {
		r.end(number, op, now, err)
		return
	}
	for _, sub := range op.Batch {
		if sub != nil {
			r.end(number, sub, now, err)
			number++
		}
	}
}

func (r *ring) end(number uint64, op *pg.Op, now time.Duration, err error) {
	rec := r.at(number)
	if rec == nil {
		if op.Epoch == r.epoch && !op.Kind.PointToPoint() && r.underWay > 0 {
			r.underWay--
		}
		return
	}
	rec.state, rec.done, rec.err = Done, now, err
	if err != nil {
		rec.state = Failed
	}
	rec.seq, rec.round = op.Seq, op.Round
	if op.Kind == pg.KindRecv {
		rec.peer = op.Source
	}
	if rec.place == 0 || rec.epoch != r.epoch {
		return
	}
	r.underWay--
	if err != nil && !breaks(err) && rec.place == r.places {
		r.places-- // it was refused, so it never was a collective
		rec.place = 0
		return
	}
	r.startNext(number, now)
}

// startNext marks the first collective after an op that is done.
func (r *ring) startNext(number uint64, now time.Duration) {
	if r.underWay == 0 {
		return
	}
	for n := number + 1; n <= r.last; n++ {
		next := r.at(n)
		if next != nil && next.place > 0 && next.epoch == r.epoch {
			if next.state == Scheduled {
				next.start(now)
			}
			return
		}
	}
}

// forgotten is how many ops are not in the ring any more.
func (r *ring) forgotten() uint64 {
	return r.last - min(r.last, uint64(len(r.records)))
}

// entries is what the ring holds, oldest first.
func (r *ring) entries(origin time.Time) []Entry {
	var all []Entry
	for n := r.forgotten() + 1; n <= r.last; n++ {
		if rec := r.at(n); rec != nil {
			all = append(all, rec.entry(origin))
		}
	}
	return all
}

func (rec *record) entry(origin time.Time) Entry {
	e := Entry{
		Number: rec.number, Place: rec.place, Batch: rec.batch, Seq: rec.seq,
		Cluster: rec.epoch.Cluster, QuorumID: rec.epoch.QuorumID, Round: rec.round, Kind: rec.kind.String(),
		Tensors: rec.tensors, InBytes: rec.inBytes, OutBytes: rec.outBytes,
		Root: rec.root, Peer: rec.peer, Tag: rec.tag, State: rec.state,
	}
	if rec.dtype != tensor.Invalid {
		e.DType, e.Shape = rec.dtype.String(), []int{rec.count}
		if rec.dims != 1 {
			e.Shape = slices.Clone(rec.shape[:min(len(rec.shape), maxShape)])
		}
	}
	if rec.kind.Reduces() {
		e.Reduce = rec.reduce.String()
	}
	if rec.err != nil {
		e.Error = bounded(rec.err.Error())
	}
	at := func(d time.Duration, had bool) *time.Time {
		if !had {
			return nil
		}
		t := origin.Add(d).UTC()
		return &t
	}
	e.Scheduled = at(rec.scheduled, true)
	e.Started = at(rec.started, rec.state != Scheduled && rec.started > 0)
	e.Done = at(rec.done, rec.state == Done || rec.state == Failed)
	return e
}
