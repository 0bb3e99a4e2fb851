package pgtest

import (
	"fmt"
	"slices"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// arriveLocked puts p into the meeting of its sequence number and carries out
// every meeting that is complete and next. It returns the ops that are done.
func (r *room) arriveLocked(p *pending) []*pending {
	i := int(p.op.Seq - r.mu.done - 1)
	for len(r.mu.meetings) <= i {
		seq := r.mu.done + 1 + uint64(len(r.mu.meetings))
		r.mu.meetings = append(r.mu.meetings, &meeting{seq: seq, arrived: make([]*pending, len(r.mu.seats))})
	}
	m := r.mu.meetings[i]
	rank := p.seat.rank()
	other := m.anyone()
	m.arrived[rank] = p
	m.count++
	if other != nil {
		if mine, theirs := signature(p.op), signature(other.op); mine != theirs {
			return r.mismatchLocked(p, other, mine, theirs)
		}
	}
	var done []*pending
	for len(r.mu.meetings) > 0 && r.mu.meetings[0].count == len(r.mu.seats) {
		m := r.mu.meetings[0]
		if err := m.carryOut(); err != nil {
			return append(done, r.mismatchLocked(p, m.arrived[(rank+1)%len(m.arrived)], signature(p.op), err.Error())...)
		}
		r.mu.meetings = r.mu.meetings[1:]
		r.mu.done++
		done = append(done, m.arrived...)
	}
	return done
}

func (m *meeting) anyone() *pending {
	for _, p := range m.arrived {
		if p != nil {
			return p
		}
	}
	return nil
}

// mismatchLocked breaks the room because two ranks called different things;
// every rank is told what both said.
func (r *room) mismatchLocked(p, other *pending, mine, theirs string) []*pending {
	err := fmt.Errorf("%w: rank %d called %s, rank %d called %s",
		pg.ErrMismatch, p.seat.rank(), mine, other.seat.rank(), theirs)
	differ := p.op.Round == other.op.Round // else one of them is only behind
	done := r.breakLocked(&breakage{origin: p.seat.rank(), culprit: other.seat.rank(), local: err, remote: err, differ: differ})
	if !p.done { // a point-to-point op that was not posted yet
		p.err = r.opErrorLocked(p.seat, p.op)
		done = append(done, p)
	}
	return done
}

// signature is what all ranks must say of a collective.
func signature(op *pg.Op) string {
	s := fmt.Sprintf("%v round %d", op.Kind, op.Round)
	if op.Kind.Reduces() {
		s += fmt.Sprintf(" %v divisor %d factor %v", op.Reduce, op.Divisor, op.Factor)
	}
	switch op.Kind {
	case pg.KindReduce, pg.KindBroadcast, pg.KindGather, pg.KindScatter:
		s += fmt.Sprintf(" root %d", op.Root)
	}
	switch op.Kind {
	case pg.KindAllReduce, pg.KindReduce, pg.KindReduceScatter:
		s += describe(op.In)
	case pg.KindBroadcast, pg.KindAllGather:
		s += describe(op.Out)
	case pg.KindGather, pg.KindScatter, pg.KindAllToAll, pg.KindSend, pg.KindRecv:
		s += " " + slices.Concat(op.In, op.Out)[0].DType().String()
	}
	return s
}

func describe(ts []tensor.Tensor) string {
	s := ""
	for _, t := range ts {
		s += fmt.Sprintf(" %v[%d]", t.DType(), t.Len())
	}
	return s
}

// carryOut does the collective on the memory of all ranks. An error says that
// sizes do not fit.
func (m *meeting) carryOut() error {
	first := m.arrived[0].op
	var err error
	switch first.Kind {
	case pg.KindAllReduce:
		for i := range first.In {
			m.reduce(i, func(rank int) int { return i })
		}
	case pg.KindReduce:
		for i := range first.In {
			m.reduce(i, func(rank int) int {
				if rank == first.Root {
					return i
				}
				return -1
			})
		}
	case pg.KindReduceScatter:
		results := make([][]byte, len(m.arrived))
		for slot := range m.arrived {
			results[slot] = m.fold(slot)
		}
		for rank, result := range results {
			copy(m.arrived[rank].op.Out[0].Bytes(), result)
		}
	case pg.KindBallot:
		for rank := range m.arrived {
			m.fillBallots(rank, true)
		}
		for _, p := range m.arrived {
			p.seat.digest = pg.Digest{Valid: true}
		}
	default:
		err = m.move()
	}
	if err == nil {
		m.digest()
	}
	return err
}

// fold reduces In[i] of all ranks into fresh memory.
func (m *meeting) fold(i int) []byte {
	op := m.arrived[0].op
	inputs := make([][]byte, len(m.arrived))
	for rank, p := range m.arrived {
		inputs[rank] = p.op.In[i].Bytes()
	}
	result := make([]byte, len(inputs[0]))
	err := tensor.Reduce(result, inputs, op.In[i].DType(), op.Reduce, op.EffectiveDivisor(len(m.arrived)), op.Factor)
	if err != nil {
		panic(fmt.Sprintf("pgtest: fold of a valid op: %v", err))
	}
	return result
}

// reduce folds In[i] into the output that out names for each rank, -1 for none.
func (m *meeting) reduce(i int, out func(rank int) int) {
	result := m.fold(i)
	for rank, p := range m.arrived {
		if o := out(rank); o >= 0 {
			copy(p.op.Out[o].Bytes(), result)
		}
	}
}

// move carries out the collectives that only copy. All sources are read before
// anything is written, since ranks may give overlapping tensors.
func (m *meeting) move() error {
	type transfer struct {
		to   tensor.Tensor
		data []byte
	}
	var all []transfer
	for to, p := range m.arrived {
		for i, out := range p.op.Out {
			from, slot := source(p.op, to, i)
			in := m.arrived[from].op.In[slot]
			if in.Len() != out.Len() {
				return fmt.Errorf("slot %d of rank %d with %d elements, for slot %d of rank %d with %d",
					slot, from, in.Len(), i, to, out.Len())
			}
			all = append(all, transfer{to: out, data: slices.Clone(in.Bytes())})
		}
	}
	for _, t := range all {
		copy(t.to.Bytes(), t.data)
	}
	return nil
}

// source says which input of which rank becomes Out[i] of rank to.
func source(op *pg.Op, to, i int) (rank, slot int) {
	switch op.Kind {
	case pg.KindBroadcast:
		return op.Root, i
	case pg.KindScatter:
		return op.Root, to
	case pg.KindAllToAll:
		return i, to
	default: // all-gather, gather
		return i, 0
	}
}

// digest folds the results that are equal on all ranks.
func (m *meeting) digest() {
	switch m.arrived[0].op.Kind {
	case pg.KindAllReduce, pg.KindBroadcast, pg.KindAllGather:
	default:
		return
	}
	for _, p := range m.arrived {
		for _, out := range p.op.Out {
			if b := out.Bytes(); len(b) > 0 && p.seat.backend.corrupt.Swap(false) {
				b[0] ^= 1
			}
			p.seat.digest.Add(out.Bytes())
		}
	}
}

// fillBallots gives rank the ballots of those who have come. If the meeting is
// not the next one, digests are not known yet, so that only its own is there.
func (m *meeting) fillBallots(rank int, next bool) {
	op := m.arrived[rank].op
	op.Ballots = make([]pg.BallotEntry, len(m.arrived))
	for r, p := range m.arrived {
		if p == nil || p.op.Kind != pg.KindBallot || !next && r != rank {
			continue
		}
		op.Ballots[r] = pg.BallotEntry{Here: true, Digest: p.seat.digest, Payload: slices.Clone(p.op.Ballot)}
	}
}

// postLocked puts a point-to-point op into the mail, or matches it with the
// oldest op there that fits.
func (r *room) postLocked(p *pending) []*pending {
	mine, others := &r.mu.sends, &r.mu.recvs
	if p.op.Kind == pg.KindRecv {
		mine, others = others, mine
	}
	i := slices.IndexFunc(*others, func(o *pending) bool {
		if p.op.Kind == pg.KindRecv {
			return fits(o, p)
		}
		return fits(p, o)
	})
	if i < 0 {
		*mine = append(*mine, p)
		return nil
	}
	o := (*others)[i]
	send, recv := p, o
	if p.op.Kind == pg.KindRecv {
		send, recv = o, p
	}
	from, to := send.op.In[0], recv.op.Out[0]
	if from.Len() != to.Len() || from.DType() != to.DType() || send.op.Round != recv.op.Round {
		return r.mismatchLocked(p, o,
			fmt.Sprintf("%v of%s round %d", p.op.Kind, describe(slices.Concat(p.op.In, p.op.Out)), p.op.Round),
			fmt.Sprintf("%v of%s round %d", o.op.Kind, describe(slices.Concat(o.op.In, o.op.Out)), o.op.Round))
	}
	*others = slices.Delete(*others, i, i+1)
	copy(to.Bytes(), from.Bytes())
	recv.op.Source = send.seat.rank()
	return []*pending{p, o}
}

func fits(send, recv *pending) bool {
	return send.op.Peer == recv.seat.rank() && send.op.Tag == recv.op.Tag &&
		(recv.op.Peer == pg.AnySource || recv.op.Peer == send.seat.rank())
}
