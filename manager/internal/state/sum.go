package state

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

// Sum is a digest, and of what.
type Sum struct {
	Digest      quorum.Digest
	Slice       quorum.Slice
	First, Last string // tensors of the slice
}

// parityStep is how much is summed up at a time: the assembler below cannot be
// interrupted.
const parityStep = 256 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum sums up what a step compares, a slice or the whole, of the tensors that are not this replica's own:
// their bytes in the order of their names, as one run. Tensors on a device, and such
// with holes, have no bytes here. Where a part is absent there is no sum: one of what is left
// would be another than that of the others.
func (s *Parts) Sum(step int64, whole bool) Sum {
	tensors := s.shared()
	names := slices.Sorted(maps.Keys(tensors))
	var total int64
	for _, name := range names {
		if t := tensors[name]; t.IsNone() {
			return Sum{}
		}
		total += int64(len(tensors[name].Bytes()))
	}
	if total == 0 {
		return Sum{}
	}
	out := Sum{Slice: quorum.ParitySlice(step, total)}
	if whole {
		out.Slice = quorum.WholeSlice(total)
	}
	crc := crc32.Checksum(binary.LittleEndian.AppendUint64(nil, uint64(total)), castagnoli)
	at := int64(0)
	for _, name := range names {
		data := tensors[name].Bytes()
		from, to := max(out.Slice.From-at, 0), min(out.Slice.To-at, int64(len(data)))
		at += int64(len(data))
		if from >= to {
			continue
		}
		if out.Last = name; out.First == "" {
			out.First = name
		}
		for part := range slices.Chunk(data[from:to], parityStep) {
			crc = crc32.Update(crc, castagnoli, part)
		}
	}
	out.Digest = quorum.Digest{Valid: true, Sum: crc}
	return out
}

// shared are the tensors that all replicas hold alike.
func (s *Parts) shared() map[string]tensor.Tensor {
	all := make(map[string]tensor.Tensor)
	for _, p := range s.parts {
		if p.Local || p.Volatile {
			continue
		}
		for name, t := range s.call(p).Tensors {
			all[p.name+"/"+name] = t
		}
	}
	return all
}
