package tcp

import (
	"math"
	"unsafe"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/tensor"
)

const (
	// minCut keeps frames long enough that their cost is that of their bytes.
	minCut = 32 << 10
	// partAlign aligns the parts of a reduction: a multiple of every element
	// size, and a cache line.
	partAlign = 64
	// piecesPerPart is how many pieces a part should have at least, so that
	// folding and sending overlap.
	piecesPerPart = 4
)

// smallBytes is up to which input size a reduction sends whole inputs instead of parts:
// at most MaxPayload, and the same on all ranks.
const smallBytes = 32 << 10

// callOf is what op's peers must call too.
func callOf(op *pg.Op, g *group) frame.Call {
	c := frame.Call{Kind: op.Kind, Root: -1, Round: g.round}
	if len(op.In) > 0 {
		c.DType = op.In[0].DType()
	} else if len(op.Out) > 0 {
		c.DType = op.Out[0].DType()
	}
	if op.Kind.Reduces() {
		c.Reduce = op.Reduce
	}
	agreed := op.In // tensors whose lengths all ranks know
	switch op.Kind {
	case pg.KindReduce:
		c.Root = int32(op.Root)
	case pg.KindBroadcast:
		c.Root, agreed = int32(op.Root), op.Out
	case pg.KindAllGather:
		agreed = op.Out
	case pg.KindGather, pg.KindScatter:
		c.Root, agreed = int32(op.Root), nil
	case pg.KindAllToAll, pg.KindSend, pg.KindRecv:
		agreed = nil
	}
	mix := newMixer()
	bytes := 0
	for i := range agreed {
		n := agreed[i].Len()
		c.Count += uint64(n)
		bytes += agreed[i].NumBytes()
		mix.add(uint64(n))
	}
	if op.Kind.Reduces() {
		switch op.Reduce {
		case tensor.Avg:
			mix.add(uint64(op.EffectiveDivisor(g.world)))
		case tensor.PreMulSum:
			mix.add(math.Float64bits(op.Factor))
		}
		c.Small = op.Kind == pg.KindAllReduce && bytes <= smallBytes
		if c.Small {
			mix.add(1)
		}
	}
	c.Relay = op.Kind == pg.KindBroadcast && g.world > 2 && bytes > smallBytes
	if c.Relay {
		mix.add(2)
	}
	c.Sig = mix.sum()
	if op.Kind.PointToPoint() {
		c.Kind, c.Sig = pg.KindSend, 0 // what both ends of a message call it
	}
	return c
}

// mixer is FNV-1a over 64-bit numbers: it tells calls apart, nobody attacks it.
type mixer uint64

func newMixer() mixer { return 14695981039346656037 }

func (m *mixer) add(v uint64) {
	for range 8 {
		*m = (*m ^ mixer(v&0xff)) * 1099511628211
		v >>= 8
	}
}

func (m mixer) sum() uint32 { return uint32(m>>32) ^ uint32(m) }

// prepare lays out t: which streams move, and what is folded. It runs without
// the lock, after every earlier collective is complete.
func (t *task) prepare(b *Backend) {
	g := t.group
	t.in = views(t.in, t.op.In)
	t.out = views(t.out, t.op.Out)
	t.peers = resize(t.peers, g.world)
	t.fold.world = g.world
	switch t.call.Kind {
	case pg.KindAllReduce:
		if t.call.Small {
			t.planSmall(b)
		} else {
			t.planParts()
		}
	case pg.KindReduce:
		t.planReduce()
	case pg.KindReduceScatter:
		t.planReduceScatter()
	case pg.KindBroadcast:
		if t.call.Relay {
			t.planRelay()
		} else {
			t.planBroadcast()
		}
	case pg.KindAllGather:
		t.planAllGather()
	case pg.KindBallot:
		t.planBallot(b)
	default:
		t.planPairs()
	}
	t.countNeed()
}

// countNeed counts what must happen before t is complete: pieces in and out,
// folds, and the local step.
func (t *task) countNeed() {
	t.need = 1 + len(t.fold.cells)
	for i := range t.peers {
		for phase := range 2 {
			p := &t.peers[i]
			p.in[phase].phase, p.out[phase].phase = uint8(phase), uint8(phase)
			t.need += p.in[phase].pieces + p.out[phase].pieces
		}
	}
}

// planSmall: every rank sends all to all, and folds by itself. The input is
// packed first: Out may be In, and is written while slow peers still read.
func (t *task) planSmall(b *Backend) {
	total := size(t.in)
	t.packed = b.pool.get(total)
	at := 0
	for _, p := range t.in {
		at += copy(t.packed.b[at:], p)
	}
	t.fold.packed[0] = t.packed.b
	view := t.fold.packed[:]
	all := span{0, total}
	for r := range t.peers {
		if r != t.group.rank {
			t.peers[r].out[0] = newStream(view, all, MaxPayload)
			t.peers[r].in[0] = newStream(view, all, MaxPayload)
			t.peers[r].in[0].scratch = true
		}
	}
	t.fold.cells = append(t.fold.cells[:0], cell{in: t.packed.b})
	t.fold.start()
}

// planParts: rank j folds the j-th part and sends the result to all.
func (t *task) planParts() {
	g, total := t.group, size(t.in)
	cut := cutFor(total / g.world)
	mine := partOf(total, g.rank, g.world)
	slots := 0
	for r := range t.peers {
		part := partOf(total, r, g.world)
		results := newStream(t.out, part, cut)
		results.slots = slots
		slots += results.pieces
		p := &t.peers[r]
		if r != g.rank {
			p.out[0] = newStream(t.in, part, cut)
			p.in[0] = newStream(t.in, mine, cut)
			p.in[0].scratch = true
			p.in[1] = results
			continue
		}
		t.fold.slots = results.slots
		for q := range t.peers {
			if q != g.rank {
				t.peers[q].out[1] = results
				t.peers[q].out[1].limit = 0
			}
		}
	}
	t.crcs = resize(t.crcs, slots)
	t.fold.results = true
	t.cells(newStream(t.in, mine, cut), newStream(t.out, mine, cut))
}

// cells makes a cell of every piece of in, whose result goes to that of out.
func (t *task) cells(in, out stream) {
	t.fold.cells = t.fold.cells[:0]
	for !in.finished() {
		t.fold.cells = append(t.fold.cells, cell{in: in.take(), out: out.take()})
	}
	t.fold.start()
}

func (t *task) planReduce() {
	g, root := t.group, t.op.Root
	all := span{0, size(t.in)}
	if g.rank != root {
		t.peers[root].out[0] = newStream(t.in, all, MaxPayload)
		return
	}
	for r := range t.peers {
		if r != root {
			t.peers[r].in[0] = newStream(t.in, all, MaxPayload)
			t.peers[r].in[0].scratch = true
		}
	}
	t.cells(newStream(t.in, all, MaxPayload), newStream(t.out, all, MaxPayload))
}

func (t *task) planReduceScatter() {
	g := t.group
	for r := range t.peers {
		if r != g.rank {
			t.peers[r].out[0] = whole(t.in, r)
			t.peers[r].in[0] = whole(t.in, g.rank)
			t.peers[r].in[0].scratch = true
		}
	}
	t.cells(whole(t.in, g.rank), whole(t.out, 0))
}

func (t *task) planBroadcast() {
	rank, root := t.group.rank, t.op.Root
	view := t.out
	if rank == root {
		view = t.in
	}
	s, none := newStream(view, span{0, size(view)}, MaxPayload), newStream(nil, span{}, MaxPayload)
	s.slots = 0
	t.crcs = resize(t.crcs, s.pieces)
	if rank != root {
		t.peers[root].in[0], t.peers[root].out[0] = s, none
		return
	}
	for r := range t.peers {
		if r != root {
			t.peers[r].out[0], t.peers[r].in[0] = s, none
		}
	}
}

// planRelay is a large broadcast: the root sends a part to each other rank,
// which sends it on to the rest as it comes. So N bytes leave the root, not
// (W-1)·N, and the others share the work.
func (t *task) planRelay() {
	g, root := t.group, t.op.Root
	view := t.out
	if g.rank == root {
		view = t.in
	}
	total, slots := size(view), 0
	cut := cutFor(total / (g.world - 1))
	none := newStream(nil, span{}, MaxPayload)
	var mine stream
	for r := range t.peers {
		if r == root {
			continue
		}
		s := newStream(view, partOf(total, relayPart(r, root), g.world-1), cut)
		s.slots = slots
		slots += s.pieces
		p := &t.peers[r]
		switch {
		case g.rank == root:
			p.out[0], p.in[0] = s, none
		case r == g.rank:
			mine = s
		default:
			p.in[1] = s
		}
	}
	t.crcs = resize(t.crcs, slots)
	if g.rank == root {
		return
	}
	t.peers[root].in[0], t.peers[root].out[0] = mine, none
	mine.limit = 0
	for q := range t.peers {
		if q != root && q != g.rank {
			t.peers[q].out[1] = mine
		}
	}
}

// relayPart is which part of a relayed broadcast rank r sends on.
func relayPart(r, root int) int {
	if r > root {
		return r - 1
	}
	return r
}

// relayLocked lets what came from the root go on to the others, as far as it is
// there without a gap: pieces that came before the op was open are put in place
// by another goroutine than those that come after them. It tells whether there is
// more than before.
func (t *task) relayLocked(from int) bool {
	if !t.call.Relay || from != t.op.Root {
		return false
	}
	more := false
	came := &t.peers[from].in[0]
	for q := range t.peers {
		s := &t.peers[q].out[1]
		for s.used && s.limit < came.pieces {
			if _, known := t.crcs[came.slots+s.limit].get(); !known {
				break
			}
			s.limit++
			more = true
		}
	}
	return more
}

func (t *task) planAllGather() {
	g, slots := t.group, 0
	for r := range t.peers {
		s := whole(t.out, r)
		s.slots = slots
		slots += s.pieces
		if r != g.rank {
			t.peers[r].in[0] = s
			continue
		}
		mine := whole(t.in, 0)
		mine.slots = s.slots
		for q := range t.peers {
			if q != g.rank {
				t.peers[q].out[0] = mine
			}
		}
	}
	t.crcs = resize(t.crcs, slots)
}

// planPairs lays out the kinds that are a message per pair: gather, scatter,
// all-to-all, barrier. A rank that only receives sends an empty message, which
// the root waits for: so ranks that name different roots find out, whether they
// both wait or both send.
func (t *task) planPairs() {
	g := t.group
	none := newStream(nil, span{}, MaxPayload)
	for r := range t.peers {
		if r == g.rank {
			continue
		}
		p := &t.peers[r]
		switch t.call.Kind {
		case pg.KindGather:
			if g.rank == t.op.Root {
				p.in[0] = whole(t.out, r)
			} else if r == t.op.Root {
				p.out[0] = whole(t.in, 0)
			}
		case pg.KindScatter:
			if g.rank == t.op.Root {
				p.out[0], p.in[0] = whole(t.in, r), none
			} else if r == t.op.Root {
				p.in[0], p.out[0] = whole(t.out, 0), none
			}
		case pg.KindAllToAll:
			p.in[0], p.out[0] = whole(t.out, r), whole(t.in, r)
		case pg.KindBarrier:
			p.in[0], p.out[0] = none, none
		}
	}
}

// resultStream is the i-th stream of results, in the order of the digest; an
// empty one if there is none.
func (t *task) resultStream(i int) stream {
	total := size(t.out)
	switch {
	case t.call.Kind == pg.KindAllReduce:
		return newStream(t.out, partOf(total, i, len(t.peers)), cutFor(total/len(t.peers)))
	case t.call.Kind == pg.KindAllGather:
		return whole(t.out, i)
	case t.call.Relay && i != t.op.Root:
		parts := len(t.peers) - 1
		return newStream(t.out, partOf(total, relayPart(i, t.op.Root), parts), cutFor(total/parts))
	case !t.call.Relay && i == 0:
		return newStream(t.out, span{0, total}, MaxPayload)
	}
	return stream{}
}

// local is the part of t that needs no peer: this rank's own slot.
func (t *task) local() {
	rank, root := t.group.rank, t.op.Root
	switch kind := t.call.Kind; {
	case kind == pg.KindBroadcast && rank == root:
		for i := range t.in {
			copySlot(t.out[i], t.in[i])
		}
	case kind == pg.KindAllGather, kind == pg.KindGather && rank == root:
		copySlot(t.out[rank], t.in[0])
	case kind == pg.KindScatter && rank == root:
		copySlot(t.out[0], t.in[rank])
	case kind == pg.KindAllToAll:
		copySlot(t.out[rank], t.in[rank])
	}
}

// copySlot copies a slot that may be in place already; then peers may be reading
// it, and not even the same bytes are written.
func copySlot(dst, src []byte) {
	if unsafe.SliceData(dst) != unsafe.SliceData(src) {
		copy(dst, src)
	}
}

// whole is the stream of one tensor.
func whole(view [][]byte, i int) stream {
	return newStream(view[i:i+1], span{0, len(view[i])}, MaxPayload)
}

// partOf is rank j's part of n bytes.
func partOf(n, j, world int) span {
	at := func(i int) int {
		if i == world {
			return n
		}
		return n / world * i / partAlign * partAlign
	}
	return span{at(j), at(j + 1)}
}

// cutFor is the largest piece of a part of n bytes: a power of two, so that
// pieces never cross a chunk of the digest.
func cutFor(n int) int {
	cut := MaxPayload
	for cut > minCut && cut*piecesPerPart > n {
		cut /= 2
	}
	return cut
}

func size(view [][]byte) int {
	n := 0
	for _, p := range view {
		n += len(p)
	}
	return n
}

func views(v [][]byte, tensors []tensor.Tensor) [][]byte {
	v = v[:0]
	for i := range tensors {
		v = append(v, tensors[i].Bytes())
	}
	return v
}

// resize returns s with n zero elements, in its own memory if that suffices.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}
