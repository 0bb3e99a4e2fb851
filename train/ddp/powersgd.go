package ddp

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/tensor"
)

// DefaultMinRate is PowerSGDConfig.MinRate.
const DefaultMinRate = 2

// MaxPowerSGDRank bounds PowerSGDConfig.Rank.
const MaxPowerSGDRank = 1024

// PowerSGDConfig tunes a PowerSGD. It is the same on all replicas.
type PowerSGDConfig struct {
	// Rank is that of the approximation, 1 to MaxPowerSGDRank; 0 means 1. Too low
	// needs more steps to learn as much, too high sends and computes more: a gradient of
	// n x m becomes (n+m)*Rank elements. torch advises 1 to 4.
	Rank int

	// Start is the first step, from 0, that is compressed: gradients of the first steps
	// change the most, and are best averaged as they are. torch's is 1000.
	Start int64

	// MinRate is by how much a gradient must shrink at least to be compressed:
	// n*m > MinRate*(n+m)*Rank. 0 means DefaultMinRate.
	MinRate float64

	// NoFeedback drops what compression loses, where it is added to the next step's
	// gradients otherwise. It saves a copy of the gradients, and costs accuracy.
	NoFeedback bool

	// NoWarmStart draws the right factor anew in every step, where that of
	// the step before is a better guess.
	NoWarmStart bool

	// Epsilon is added to norms when factors are made orthogonal, 0 or more. 0 is
	// good: columns that vanish are left alone.
	Epsilon float64

	// Seed draws the right factors.
	Seed uint64
}

func (c *PowerSGDConfig) fill() error {
	var bad problems.List
	problems.Within(&bad, "Rank", c.Rank, 0, MaxPowerSGDRank)
	problems.NotNegative(&bad, "Start", c.Start)
	bad.Want(c.MinRate == 0 || c.MinRate >= 1, "MinRate", c.MinRate, "1 or more, or 0 for %d", DefaultMinRate)
	bad.Want(c.Epsilon >= 0 && c.Epsilon <= 1, "Epsilon", c.Epsilon, "0 to 1")
	c.Rank = cmp.Or(c.Rank, 1)
	c.MinRate = cmp.Or(c.MinRate, DefaultMinRate)
	return bad.Err()
}

// PowerSGD is a Hook that sends a low-rank approximation of each gradient that is a
// matrix: M = gradient + error memory; P = M*Q, averaged and made orthonormal; Q = Mᵀ*P,
// averaged; the result is P*Qᵀ, and what M has more than that is the next step's error memory.
// A gradient of more dimensions is a matrix of its first one by the rest. Those that
// would not shrink by MinRate, and those of dtypes other than float32, float16 and bfloat16, are averaged as they are. It
// computes in float32, and starts two ops for each bucket: one with all P and what is not
// compressed, one with all Q.
//
// Q and the count of steps are equal on all replicas (State), error memory is a replica's own (Errors):
//
//	p, err := ddp.NewPowerSGD(params, ddp.PowerSGDConfig{Rank: 2, Start: 1000})
//	red, err := ddp.New(m, params, ddp.Options{Hook: p})
//	err = m.Register("powersgd", p.State, p.Load)
//	err = m.RegisterWith("powersgd-errors", p.Errors, nil, manager.StateOptions{Local: true})
//
// A step that is discarded changes neither. A replica that heals begins with its donor's
// error memory. In a step that is weighed (Weigh) the error memory counts as it does in
// others: for one part in the number of participants.
//
// Memory: two float32 copies of the compressed gradients, one with NoFeedback. Cost: about
// 8*n*m*Rank operations for each, on the trainer's goroutine.
// Source: Vogels et al., "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
// Optimization"; torch's powerSGD_hook, which sends P and the uncompressed as two ops, and keeps
// for the latter an error memory that cancels out.
type PowerSGD struct {
	cfg   PowerSGDConfig
	draw  *drawer
	mats  []*matrix // by parameter; nil: not compressed
	names []string
	steps [1]int64 // that count: in State
	now   int64    // the step under way
	mine  bool     // this rank counts in it
	kept  []*power // by bucket
}

// matrix is a gradient that is compressed.
type matrix struct {
	n, m, rank int
	q, err     []float32 // registered: of the steps that count
	p, next    []float32 // of the step under way: left factor, and right one
	work       []float32 // of the step under way: M, and then what the result lacks of it
	used       bool      // in the step under way
}

// NewPowerSGD makes the hook for params, which are those of the Reducer. It returns all
// problems, joined.
func NewPowerSGD(params []Param, cfg PowerSGDConfig) (*PowerSGD, error) {
	if err := cfg.fill(); err != nil {
		return nil, fmt.Errorf("ddp: %w", err)
	}
	h := &PowerSGD{cfg: cfg, draw: newDrawer(cfg.Seed), mats: make([]*matrix, len(params))}
	for i, p := range params {
		h.names = append(h.names, p.Name)
		shape := p.Shape
		if !p.Grad.IsNone() {
			shape = p.Grad.Shape()
		}
		if m := cfg.matrixOf(p.dtype(), shape); m != nil {
			h.mats[i] = m
			h.draw.fill(m.q, drawn{param: i})
			orthogonalize(m.q, m.m, float32(cfg.Epsilon))
		}
	}
	return h, nil
}

// matrixOf is what a gradient of a shape is compressed as, or nil.
func (c *PowerSGDConfig) matrixOf(dtype tensor.DType, shape []int) *matrix {
	count, err := tensor.Elements(dtype, shape)
	if err != nil || count == 0 || len(shape) < 2 {
		return nil
	}
	if dtype != tensor.Float32 && dtype != tensor.Float16 && dtype != tensor.BFloat16 {
		return nil
	}
	n := shape[0]
	m := count / n
	rank := min(n, m, c.Rank)
	if float64(n+m)*float64(rank)*c.MinRate >= float64(count) {
		return nil
	}
	x := &matrix{
		n: n, m: m, rank: rank, q: make([]float32, m*rank), next: make([]float32, m*rank),
		p: make([]float32, n*rank), work: make([]float32, count),
	}
	if !c.NoFeedback {
		x.err = make([]float32, count)
	}
	return x
}

// Compression is how many elements the compressed gradients have, and how many are sent
// for them in a step.
func (h *PowerSGD) Compression() (elements, sent int) {
	for _, m := range h.mats {
		if m != nil {
			elements += m.n * m.m
			sent += (m.n + m.m) * m.rank
		}
	}
	return elements, sent
}

// Phase is how many steps count.
func (h *PowerSGD) Phase() int64 { return h.steps[0] }

// Begin begins step number phase, from 0.
func (h *PowerSGD) Begin(phase int64) {
	h.now = phase
	for _, m := range h.mats {
		if m != nil {
			m.used = false
		}
	}
}

// Commit keeps the factors and the error memory of the step.
func (h *PowerSGD) Commit() {
	h.steps[0] = h.now + 1
	for _, m := range h.mats {
		if m == nil || !m.used {
			continue
		}
		if !h.cfg.NoWarmStart {
			copy(m.q, m.next)
		}
		if h.mine {
			copy(m.err, m.work) // none with NoFeedback
		}
	}
}

// The names of PowerSGD's state, before a parameter's.
const (
	prefixQ     = "q."
	prefixError = "error."
)

// State is the count of steps and the right factors, as views: equal on all replicas.
func (h *PowerSGD) State() checkpoint.State {
	s := checkpoint.State{Tensors: map[string]tensor.Tensor{tensorSteps: tensor.Of(h.steps[:])}}
	for i, m := range h.mats {
		if m != nil && !h.cfg.NoWarmStart {
			s.Tensors[prefixQ+h.names[i]] = tensor.Of(m.q)
		}
	}
	return s
}

// Load is told that State's tensors have been written, between two steps. It refuses a count
// below 0.
func (h *PowerSGD) Load(checkpoint.State) error { return loadSteps(h.steps[0]) }

// Errors is this replica's error memory, as views; empty with NoFeedback.
func (h *PowerSGD) Errors() checkpoint.State {
	s := checkpoint.State{Tensors: map[string]tensor.Tensor{}}
	for i, m := range h.mats {
		if m != nil && m.err != nil {
			s.Tensors[prefixError+h.names[i]] = tensor.Of(m.err)
		}
	}
	return s
}

// power is a bucket of which some gradients are compressed.
type power struct {
	of      *Bucket
	hook    *PowerSGD
	parts   []part
	lefts   tensor.Tensor // what is averaged first: every P, and the gradients that are sent as they are
	rights  tensor.Tensor // what is averaged second: every Q
	line    []float32     // scratch: a row of a result
	average func() Future // and rebuild, bound once
	rebuild func() error
	unit    float32 // what an error memory counts for in the step
	share   float32
}

// part is a gradient of a bucket.
type part struct {
	mat         *matrix // nil: sent as it is
	index       int     // of the parameter
	from, to    int     // in the bucket
	left, right int     // where it begins in lefts and rights
}

// Reduce compresses the bucket, from step Start on.
func (h *PowerSGD) Reduce(b *Bucket) Future {
	if h.now < h.cfg.Start {
		b.AllReduce(b.Tensor())
		return Future{}
	}
	k, err := h.keep(b)
	if err != nil {
		return Failed(err)
	}
	if k.rights.Len() == 0 {
		b.AllReduce(b.Tensor())
		return Future{}
	}
	h.mine = b.Rank() >= 0
	k.unit, k.share = 1, float32(b.Share())
	if b.Op() == tensor.Sum { // the sum counts the error memory of each for one, the average for a part
		k.unit = 1 / float32(max(b.Size(), 1))
	}
	if err := k.project(); err != nil {
		return Failed(err)
	}
	b.AllReduce(k.lefts)
	return Then(k.average)
}

// keep is the memory of a bucket, made when it is new.
func (h *PowerSGD) keep(b *Bucket) (*power, error) {
	for len(h.kept) <= b.Index() {
		h.kept = append(h.kept, nil)
	}
	if k := h.kept[b.Index()]; k != nil && k.of == b {
		return k, nil
	}
	if b.Tensor().Device() != tensor.CPU() {
		return nil, fmt.Errorf("PowerSGD of a bucket on %v, want host memory", b.Tensor().Device())
	}
	k := &power{of: b, hook: h}
	lefts, rights, longest := 0, 0, 0
	for i := range b.Len() {
		p := part{index: b.Param(i), left: lefts, right: rights}
		p.from, p.to = b.Range(i)
		if p.index >= len(h.mats) {
			return nil, errors.New("PowerSGD was made for fewer parameters, want those of the Reducer")
		}
		p.mat = h.mats[p.index]
		switch m := p.mat; {
		case m == nil:
			lefts += p.to - p.from
		case m.n*m.m != p.to-p.from:
			return nil, fmt.Errorf("PowerSGD was made for a %q of %d elements, want %d", b.Name(i), m.n*m.m, p.to-p.from)
		default:
			lefts += len(m.p)
			rights += len(m.q)
			longest = max(longest, m.m)
		}
		k.parts = append(k.parts, p)
	}
	k.line = make([]float32, longest)
	var err error
	if rights > 0 {
		if k.lefts, err = b.Alloc(b.Tensor().DType(), lefts); err != nil {
			return nil, err
		}
		if k.rights, err = b.Alloc(b.Tensor().DType(), rights); err != nil {
			return nil, err
		}
	}
	k.average, k.rebuild = k.averageLefts, k.rebuildResults
	h.kept[b.Index()] = k
	return k, nil
}

// project fills lefts: P = (gradient + error) * Q.
func (k *power) project() error {
	h := k.hook
	for _, p := range k.parts {
		m, grad := p.mat, k.of.flat.Flat(p.from, p.to)
		if m == nil {
			if err := tensor.Convert(k.lefts.Flat(p.left, p.left+grad.Len()), grad); err != nil {
				return err
			}
			continue
		}
		m.used = true
		if err := tensor.Convert(tensor.Of(m.work), grad); err != nil {
			return err
		}
		if m.err != nil {
			addScaled(m.work, k.unit, m.err)
		}
		h.guess(p)
		columns(m.p, m.work, m.next, m.n, m.m)
		if err := tensor.Convert(k.lefts.Flat(p.left, p.left+len(m.p)), tensor.Of(m.p)); err != nil {
			return err
		}
	}
	return nil
}

// guess is the right factor that a step begins with: that of the last one that counts, or
// one that is drawn. A column of it that has vanished would stay zero, and is drawn too.
func (h *PowerSGD) guess(p part) {
	m := p.mat
	if h.cfg.NoWarmStart {
		h.draw.fill(m.next, drawn{param: p.index, step: h.now})
		orthogonalize(m.next, m.m, float32(h.cfg.Epsilon))
		return
	}
	copy(m.next, m.q)
	for j := range m.rank {
		if col := m.next[j*m.m : (j+1)*m.m]; vanishes(col) {
			h.draw.fill(col, drawn{param: p.index, step: h.now, column: j})
		}
	}
}

// averageLefts takes the averages of the left factors, and starts on the right ones.
func (k *power) averageLefts() Future {
	for _, p := range k.parts {
		m := p.mat
		if m == nil {
			out := k.of.flat.Flat(p.from, p.to)
			if err := tensor.Convert(out, k.lefts.Flat(p.left, p.left+out.Len())); err != nil {
				return Failed(err)
			}
			continue
		}
		if err := tensor.Convert(tensor.Of(m.p), k.lefts.Flat(p.left, p.left+len(m.p))); err != nil {
			return Failed(err)
		}
		orthogonalize(m.p, m.n, float32(k.hook.cfg.Epsilon))
		columnsTransposed(m.next, m.work, m.p, m.n, m.m)
		if err := tensor.Convert(k.rights.Flat(p.right, p.right+len(m.next)), tensor.Of(m.next)); err != nil {
			return Failed(err)
		}
	}
	k.of.AllReduce(k.rights)
	return Finally(k.rebuild)
}

// rebuildResults makes the results of the averages, and the error memory.
func (k *power) rebuildResults() error {
	for _, p := range k.parts {
		m := p.mat
		if m == nil {
			continue
		}
		if err := tensor.Convert(tensor.Of(m.next), k.rights.Flat(p.right, p.right+len(m.next))); err != nil {
			return err
		}
		for i := range m.n {
			line := k.line[:m.m]
			row(line, m.p, m.next, i, m.n)
			if err := tensor.Convert(k.of.flat.Flat(p.from+i*m.m, p.from+(i+1)*m.m), tensor.Of(line)); err != nil {
				return err
			}
			lack := m.work[i*m.m : (i+1)*m.m]
			addScaled(lack, -k.share, line)
			if k.unit != 1 {
				for x := range lack {
					lack[x] /= k.unit
				}
			}
		}
	}
	return nil
}
