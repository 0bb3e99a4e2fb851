package trace

import (
	"slices"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/observe"
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

	epoch pg.Epoch
	round int64
	info  observe.Info
	dims  int   // number of dimensions of the first tensor
	shape []int // those, if they are not one; the memory stays the record's
	count int   // its elements

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
	*rec = record{
		shape:  rec.shape[:0],
		number: r.last, batch: batch, epoch: r.epoch, info: observe.InfoOf(op), state: Scheduled, scheduled: now,
	}
	for _, tensors := range [2][]tensor.Tensor{op.Out, op.In} { // of an input, if there is one
		if len(tensors) > 0 {
			rec.dims, rec.count = tensors[0].NumDims(), tensors[0].Len()
			if rec.dims != 1 {
				rec.shape = tensors[0].AppendShape(rec.shape[:0])
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
		rec.info.Peer = op.Source
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
		Cluster: rec.epoch.Cluster, QuorumID: rec.epoch.QuorumID, Round: rec.round, Kind: rec.info.Kind.String(),
		Tensors: rec.info.Tensors, InBytes: rec.info.InBytes, OutBytes: rec.info.OutBytes,
		Root: rec.info.Root, Peer: rec.info.Peer, Tag: rec.info.Tag, State: rec.state,
	}
	if rec.info.DType != tensor.Invalid {
		e.DType, e.Shape = rec.info.DType.String(), []int{rec.count}
		if rec.dims != 1 {
			e.Shape = slices.Clone(rec.shape[:min(len(rec.shape), maxShape)])
		}
	}
	if rec.info.Kind.Reduces() {
		e.Reduce = rec.info.Reduce.String()
	}
	if rec.err != nil {
		e.Error = bounded(rec.err.Error())
	}
	at := func(d time.Duration, had bool) *time.Time {
		if !had {
			return nil
		}
		return new(origin.Add(d).UTC())
	}
	e.Scheduled = at(rec.scheduled, true)
	e.Started = at(rec.started, rec.state != Scheduled && rec.started > 0)
	e.Done = at(rec.done, rec.state == Done || rec.state == Failed)
	return e
}
