package pg

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/tensor"
)

// TraceState is how far an op has come.
type TraceState string

// The states of a traced op.
const (
	TraceScheduled TraceState = "scheduled" // submitted; an earlier collective is under way
	TraceStarted   TraceState = "started"
	TraceDone      TraceState = "done"
	TraceFailed    TraceState = "failed"
)

// traceRecord is one op in the ring.
type traceRecord struct {
	number uint64 // of all ops, from 1
	place  uint64 // among the collectives of the epoch, from 1; 0: point-to-point
	batch  uint64 // number of the batch's first op; 0: none
	seq    uint64 // the backend's, once it is done

	epoch           Epoch
	round           int64
	kind            Kind
	dtype           tensor.DType
	reduce          tensor.ReduceOp
	root, peer, tag int
	dims            int   // number of dimensions of the first tensor
	shape           []int // those, if they are not one; the memory stays the record's
	count           int   // its elements
	tensors         int
	inBytes         int
	outBytes        int

	state                    TraceState
	scheduled, started, done time.Duration // since the ring's origin
	err                      error
}

// traceRing holds the last ops. Guarded by its owner.
type traceRing struct {
	records  []traceRecord
	last     uint64 // number of the newest
	epoch    Epoch
	places   uint64 // collectives of the epoch
	underWay int    // collectives that are not done
	lost     int    // ops overwritten while they were pending
}

// begin starts an epoch.
func (r *traceRing) begin(e Epoch) { r.epoch, r.places, r.underWay = e, 0, 0 }

// at is the record of an op, or nil if it was overwritten.
func (r *traceRing) at(number uint64) *traceRecord {
	rec := &r.records[number%uint64(len(r.records))]
	if rec.number != number {
		return nil
	}
	return rec
}

// submitted records op, or every op of a batch, and returns the first number.
func (r *traceRing) submitted(op *Op, now time.Duration) uint64 {
	if op.Kind != KindBatch || len(op.Batch) == 0 {
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

func (r *traceRing) add(op *Op, now time.Duration, batch uint64) {
	r.last++
	rec := &r.records[r.last%uint64(len(r.records))]
	if rec.number > 0 && (rec.state == TraceScheduled || rec.state == TraceStarted) {
		r.lost++
	}
	*rec = traceRecord{
		shape:  rec.shape[:0],
		number: r.last, batch: batch, epoch: r.epoch, kind: op.Kind, reduce: op.Reduce,
		root: op.Root, peer: op.Peer, tag: op.Tag, state: TraceScheduled, scheduled: now,
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

func (rec *traceRecord) start(now time.Duration) { rec.state, rec.started = TraceStarted, now }

// ended records how the op, or batch, with that number ended.
func (r *traceRing) ended(number uint64, op *Op, now time.Duration, err error) {
	if op.Kind != KindBatch || len(op.Batch) == 0 {
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

func (r *traceRing) end(number uint64, op *Op, now time.Duration, err error) {
	rec := r.at(number)
	if rec == nil {
		if op.Epoch == r.epoch && !op.Kind.PointToPoint() && r.underWay > 0 {
			r.underWay--
		}
		return
	}
	rec.state, rec.done, rec.err = TraceDone, now, err
	if err != nil {
		rec.state = TraceFailed
	}
	rec.seq, rec.round = op.Seq, op.Round
	if op.Kind == KindRecv {
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
func (r *traceRing) startNext(number uint64, now time.Duration) {
	if r.underWay == 0 {
		return
	}
	for n := number + 1; n <= r.last; n++ {
		next := r.at(n)
		if next != nil && next.place > 0 && next.epoch == r.epoch {
			if next.state == TraceScheduled {
				next.start(now)
			}
			return
		}
	}
}

// forgotten is how many ops are not in the ring any more.
func (r *traceRing) forgotten() uint64 {
	return r.last - min(r.last, uint64(len(r.records)))
}

// entries is what the ring holds, oldest first.
func (r *traceRing) entries(origin time.Time) []TraceEntry {
	var all []TraceEntry
	for n := r.forgotten() + 1; n <= r.last; n++ {
		if rec := r.at(n); rec != nil {
			all = append(all, rec.entry(origin))
		}
	}
	return all
}

func (rec *traceRecord) entry(origin time.Time) TraceEntry {
	e := TraceEntry{
		Number: rec.number, Place: rec.place, Batch: rec.batch, Seq: rec.seq,
		Cluster: rec.epoch.Cluster, QuorumID: rec.epoch.QuorumID, Round: rec.round, Kind: rec.kind.String(),
		Tensors: rec.tensors, InBytes: rec.inBytes, OutBytes: rec.outBytes,
		Root: rec.root, Peer: rec.peer, Tag: rec.tag, State: rec.state,
	}
	if rec.dtype != tensor.Invalid {
		e.DType, e.Shape = rec.dtype.String(), []int{rec.count}
		if rec.dims != 1 {
			e.Shape = slices.Clone(rec.shape[:min(len(rec.shape), maxTraceShape)])
		}
	}
	if rec.kind.Reduces() {
		e.Reduce = rec.reduce.String()
	}
	if rec.err != nil {
		e.Error = boundedTrace(rec.err.Error())
	}
	at := func(d time.Duration, had bool) *time.Time {
		if !had {
			return nil
		}
		t := origin.Add(d).UTC()
		return &t
	}
	e.Scheduled = at(rec.scheduled, true)
	e.Started = at(rec.started, rec.state != TraceScheduled && rec.started > 0)
	e.Done = at(rec.done, rec.state == TraceDone || rec.state == TraceFailed)
	return e
}
