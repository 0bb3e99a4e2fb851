package ddp

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/tensor"
)

// FuzzPlan: of any words that a peer may send, those that pass name each gradient once,
// and every other is refused.
func FuzzPlan(f *testing.F) {
	good := newPlan(3, 7)
	good.write([]int{2, 0, 1}, true, 1<<40+5)
	var seed []byte
	for _, w := range good.words {
		seed = binary.LittleEndian.AppendUint32(seed, uint32(w))
	}
	f.Add(seed)
	f.Add(make([]byte, len(seed)))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := newPlan(3, 7)
		for i := range p.words {
			if len(b) >= 4*(i+1) {
				p.words[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
			}
		}
		if p.check() != nil {
			return
		}
		order := slices.Clone(p.order())
		slices.Sort(order)
		if !slices.Equal(order, []int32{0, 1, 2}) || p.phase() < 0 || p.words[wordMark] != 7 {
			t.Errorf("plan %v passed", p.words)
		}
	})
}

func TestPlan(t *testing.T) {
	t.Parallel()
	p := newPlan(2, 0xfedcba98)
	p.write([]int{1, 0}, true, 1<<40+5)
	if err := p.check(); err != nil || p.phase() != 1<<40+5 || !p.rebuilt() || !sameOrder(p.order(), []int{1, 0}) {
		t.Fatalf("plan %v: %v, phase %d", p.words, err, p.phase())
	}
	for word, c := range map[int]struct {
		to   int32
		want string
	}{
		wordVersion:   {2, "version is 2, want 1"},
		wordMark:      {1, "other parameters or sizes of buckets (0x1)"},
		wordRebuilt:   {2, "rebuilt is 2, want 0 or 1"},
		wordPhaseHigh: {-1, "phase is -"},
		planWords:     {2, "each of 2 gradients once"},
		planWords + 1: {1, "each of 2 gradients once"},
	} {
		p.write([]int{1, 0}, true, 5)
		p.words[word] = c.to
		if err := p.check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("word %d = %d: %v, want %q", word, c.to, err, c.want)
		}
	}
}

// TestLay: in any order every element has one place in one bucket of its dtype, no
// two have the same, and no bucket is over the limit unless it holds one gradient alone.
func TestLay(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	types := []tensor.DType{tensor.Float32, tensor.BFloat16, tensor.Complex128}
	for range 300 {
		extents := make([]extent, r.IntN(20))
		total := map[tensor.DType]int{}
		for i := range extents {
			extents[i] = extent{types[r.IntN(3)], r.IntN(30)}
			total[extents[i].dtype] += extents[i].elements
		}
		l := limits{bucket: 100 + r.IntN(200), first: 1 + r.IntN(100)}
		spans, places := lay(r.Perm(len(extents)), extents, l)
		taken := map[tensor.DType][]bool{}
		for dtype, n := range total {
			taken[dtype] = make([]bool, n)
		}
		for i, e := range extents {
			p := places[i]
			s := spans[p.bucket]
			if s.dtype != e.dtype || p.to-p.from != e.elements || !slices.Contains(s.params, i) || p.to > s.to-s.from {
				t.Fatalf("gradient %d, %+v, is at %+v of %+v", i, e, p, s)
			}
			for x := s.from + p.from; x < s.from+p.to; x++ {
				if taken[e.dtype][x] {
					t.Fatalf("element %d of %v is taken twice", x, e.dtype)
				}
				taken[e.dtype][x] = true
			}
		}
		for b, s := range spans {
			limit := l.bucket
			if b == 0 {
				limit = l.first
			}
			if size := (s.to - s.from) * s.dtype.Size(); size > limit && len(s.params) > 1 && extents[s.params[0]].elements > 0 {
				t.Errorf("bucket %d has %d bytes, want at most %d", b, size, limit)
			}
		}
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	a := []extent{{tensor.Float32, 3}, {tensor.Float32, 4}}
	l := limits{bucket: 10, first: 5}
	seen := map[uint32]bool{}
	for _, f := range []uint32{
		fingerprint(a, l), fingerprint(a, limits{bucket: 11, first: 5}), fingerprint(a, limits{bucket: 10, first: 4}),
		fingerprint(a[:1], l), fingerprint([]extent{a[1], a[0]}, l), fingerprint([]extent{{tensor.Float64, 3}, a[1]}, l),
	} {
		if seen[f] {
			t.Error("two models have one fingerprint")
		}
		seen[f] = true
	}
}
