package debug

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// fingerprint is what one rank says about the collective that it is about to
// run: all that the ranks must agree on. It travels as the payload of a ballot.
type fingerprint struct {
	Kind    pg.Kind
	DType   tensor.DType // InvalidDType: no tensors
	Reduce  tensor.ReduceOp
	Device  tensor.DeviceType
	Divisor int // what Avg divides by
	Factor  float64
	Root    int
	Seq     uint64 // collectives of this epoch, as Check counts them
	In, Out shapeList
}

// shapeList is the shapes of one side's tensors, run by run.
type shapeList struct {
	count int        // of tensors
	runs  []shapeRun // the first ones, as many as fit
	whole uint32     // checksum of all runs
}

type shapeRun struct {
	repeat int
	shape  []int
}

const (
	fingerprintMagic   = 0x46 // "F"
	fingerprintVersion = 1
	// maxShapeBytes bounds what one side's shapes take of a ballot; the rest
	// is covered by their checksum alone.
	maxShapeBytes = 1800
	// maxShapeDims bounds the dimensions that are told of one tensor.
	maxShapeDims = 64
)

// fingerprintOf describes op, a valid op of a group of worldSize ranks.
func fingerprintOf(op *pg.Op, worldSize int, seq uint64) fingerprint {
	f := fingerprint{Kind: op.Kind, Seq: seq, In: shapesOf(op.In), Out: shapesOf(op.Out)}
	for _, side := range [2][]tensor.Tensor{op.In, op.Out} {
		if len(side) > 0 && f.DType == tensor.Invalid {
			f.DType, f.Device = side[0].DType(), side[0].Device().Type
		}
	}
	if op.Kind.Reduces() {
		f.Reduce = op.Reduce
		if op.Reduce == tensor.Avg {
			f.Divisor = op.EffectiveDivisor(worldSize)
		}
		if op.Reduce == tensor.PreMulSum {
			f.Factor = op.Factor
		}
	}
	if rooted(op.Kind) {
		f.Root = op.Root
	}
	return f
}

// rooted tells whether ops of kind k have a root.
func rooted(k pg.Kind) bool {
	return k == pg.KindReduce || k == pg.KindBroadcast || k == pg.KindGather || k == pg.KindScatter
}

func shapesOf(tensors []tensor.Tensor) shapeList {
	l := shapeList{count: len(tensors)}
	for i := range tensors {
		shape := tensors[i].Shape()
		if n := len(l.runs); n > 0 && slices.Equal(l.runs[n-1].shape, shape) {
			l.runs[n-1].repeat++
			continue
		}
		l.runs = append(l.runs, shapeRun{repeat: 1, shape: shape})
	}
	return l
}

// encode writes f in at most pg.MaxBallotBytes.
func (f *fingerprint) encode() []byte {
	b := []byte{
		fingerprintMagic, fingerprintVersion,
		byte(f.Kind), byte(f.DType), byte(f.Reduce), byte(f.Device),
	}
	b = binary.AppendUvarint(b, f.Seq)
	b = binary.AppendVarint(b, int64(f.Root))
	b = binary.AppendUvarint(b, uint64(f.Divisor))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f.Factor))
	return f.Out.append(f.In.append(b))
}

func (l *shapeList) append(b []byte) []byte {
	var told []byte
	n, crc, fits := 0, uint32(0), true
	for _, run := range l.runs {
		one := binary.AppendUvarint(nil, uint64(run.repeat))
		one = binary.AppendUvarint(one, uint64(len(run.shape)))
		for _, d := range run.shape {
			one = binary.AppendUvarint(one, uint64(d))
		}
		crc = crc32.Update(crc, crc32.MakeTable(crc32.Castagnoli), one)
		fits = fits && len(run.shape) <= maxShapeDims && len(told)+len(one) <= maxShapeBytes
		if fits {
			told = append(told, one...)
			n++
		}
	}
	b = binary.AppendUvarint(b, uint64(l.count))
	b = binary.LittleEndian.AppendUint32(b, crc)
	b = binary.AppendUvarint(b, uint64(n))
	return append(b, told...)
}

var errFingerprint = errors.New("pg: no fingerprint")

// decodeFingerprint reads what encode wrote on another rank.
func decodeFingerprint(b []byte) (fingerprint, error) {
	r := fingerprintReader{b: b}
	if head := r.bytes(2); r.bad || head[0] != fingerprintMagic || head[1] != fingerprintVersion {
		return fingerprint{}, errFingerprint
	}
	var f fingerprint
	if head := r.bytes(4); !r.bad {
		f.Kind, f.DType = pg.Kind(head[0]), tensor.DType(head[1])
		f.Reduce, f.Device = tensor.ReduceOp(head[2]), tensor.DeviceType(head[3])
	}
	f.Seq = r.uvarint(math.MaxInt64)
	f.Root = r.varint()
	f.Divisor = int(r.uvarint(math.MaxInt32))
	if factor := r.bytes(8); !r.bad {
		f.Factor = math.Float64frombits(binary.LittleEndian.Uint64(factor))
	}
	f.In, f.Out = r.shapes(), r.shapes()
	if r.bad || len(r.b) > 0 || !f.Kind.Valid() {
		return fingerprint{}, errFingerprint
	}
	return f, nil
}

// fingerprintReader takes one value after the other from b, and turns bad when
// b ends or a value is out of bounds.
type fingerprintReader struct {
	b   []byte
	bad bool
}

func (r *fingerprintReader) bytes(n int) []byte {
	if r.bad || len(r.b) < n {
		r.bad = true
		return make([]byte, n)
	}
	head := r.b[:n]
	r.b = r.b[n:]
	return head
}

func (r *fingerprintReader) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 || v > limit {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *fingerprintReader) varint() int {
	v, n := binary.Varint(r.b)
	if r.bad || n <= 0 || v < math.MinInt32 || v > math.MaxInt32 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

func (r *fingerprintReader) shapes() shapeList {
	l := shapeList{count: int(r.uvarint(pg.MaxTensors))}
	if crc := r.bytes(4); !r.bad {
		l.whole = binary.LittleEndian.Uint32(crc)
	}
	for range r.uvarint(pg.MaxBallotBytes) {
		run := shapeRun{repeat: int(r.uvarint(pg.MaxTensors))}
		for range r.uvarint(maxShapeDims) {
			run.shape = append(run.shape, int(r.uvarint(tensor.MaxElements)))
		}
		if r.bad {
			return shapeList{}
		}
		l.runs = append(l.runs, run)
	}
	return l
}

// elements is how many elements tensor i has; false if that was not told.
func (l *shapeList) elements(i int) (int, bool) {
	for _, run := range l.runs {
		if i < run.repeat {
			n := 1
			for _, d := range run.shape {
				n *= d
			}
			return n, true
		}
		i -= run.repeat
	}
	return 0, false
}

func (l *shapeList) equal(o *shapeList) bool { return l.count == o.count && l.whole == o.whole }

// agrees tells whether f, called by rank a, and g, called by rank b, can be
// parts of one collective.
func (f *fingerprint) agrees(g *fingerprint, a, b int) bool {
	if f.Kind != g.Kind || f.Seq != g.Seq || f.Root != g.Root {
		return false
	}
	if f.DType != g.DType && f.DType != tensor.Invalid && g.DType != tensor.Invalid {
		return false
	}
	if f.Device != g.Device || f.Reduce != g.Reduce || f.Divisor != g.Divisor ||
		math.Float64bits(f.Factor) != math.Float64bits(g.Factor) {
		return false
	}
	switch f.Kind {
	case pg.KindAllReduce, pg.KindReduce, pg.KindReduceScatter:
		return f.In.equal(&g.In)
	case pg.KindBroadcast:
		return f.Out.equal(&g.Out)
	}
	return f.sends(g, a, b) && g.sends(f, b, a)
}

// sends tells whether what a, which called f, sends to b is as long as what b,
// which called g, has room for.
func (f *fingerprint) sends(g *fingerprint, a, b int) bool {
	var from, to int
	var known, room bool
	switch {
	case f.Kind == pg.KindAllGather, f.Kind == pg.KindGather && b == f.Root:
		from, known = f.In.elements(0)
		to, room = g.Out.elements(a)
	case f.Kind == pg.KindScatter && a == f.Root:
		from, known = f.In.elements(b)
		to, room = g.Out.elements(0)
	case f.Kind == pg.KindAllToAll:
		from, known = f.In.elements(b)
		to, room = g.Out.elements(a)
	}
	return !known || !room || from == to
}

// String describes the call: "all-reduce #5 of float32[10] by sum on cpu".
func (f *fingerprint) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%v #%d", f.Kind, f.Seq)
	if f.DType != tensor.Invalid {
		fmt.Fprintf(&s, " of %v", f.DType)
		f.In.describe(&s)
		if out := f.Out; f.In.count == 0 || !out.equal(&f.In) && out.count > 0 {
			s.WriteString(" into ")
			out.describe(&s)
		}
	}
	if f.Kind.Reduces() {
		fmt.Fprintf(&s, " by %v", f.Reduce)
		if f.Reduce == tensor.Avg {
			fmt.Fprintf(&s, " over %d", f.Divisor)
		}
		if f.Reduce == tensor.PreMulSum {
			fmt.Fprintf(&s, " times %v", f.Factor)
		}
	}
	if rooted(f.Kind) {
		fmt.Fprintf(&s, " with root %d", f.Root)
	}
	if f.DType != tensor.Invalid {
		fmt.Fprintf(&s, " on %v", f.Device)
	}
	return s.String()
}

// shapesShown is how many different shapes a message names.
const shapesShown = 4

func (l *shapeList) describe(s *strings.Builder) {
	for i, run := range l.runs {
		if i == shapesShown {
			fmt.Fprintf(s, "… (%d tensors)", l.count)
			return
		}
		if run.repeat > 1 {
			fmt.Fprintf(s, " %d×", run.repeat)
		}
		fmt.Fprintf(s, "%v", run.shape)
	}
}
