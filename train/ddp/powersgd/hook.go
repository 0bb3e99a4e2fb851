package powersgd

import (
	"cmp"
	"fmt"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/ddp"
)

// DefaultMinRate is Config.MinRate.
const DefaultMinRate = 2

// MaxRank bounds Config.Rank.
const MaxRank = 1024

// Config tunes a Hook. It is the same on all replicas.
type Config struct {
	// Rank is that of the approximation, 1 to MaxRank; 0 means 1. Too low
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

func (c *Config) fill() error {
	var bad problems.List
	problems.Within(&bad, "Rank", c.Rank, 0, MaxRank)
	problems.NotNegative(&bad, "Start", c.Start)
	bad.Want(c.MinRate == 0 || c.MinRate >= 1, "MinRate", c.MinRate, "1 or more, or 0 for %d", DefaultMinRate)
	bad.Want(c.Epsilon >= 0 && c.Epsilon <= 1, "Epsilon", c.Epsilon, "0 to 1")
	c.Rank = cmp.Or(c.Rank, 1)
	c.MinRate = cmp.Or(c.MinRate, DefaultMinRate)
	return bad.Err()
}

// Hook is a ddp.Hook that sends a low-rank approximation of each gradient that is a
// matrix: M = gradient + error memory; P = M*Q, with the last step's Q made orthonormal, averaged and
// made orthonormal; Q = Mᵀ*P, averaged; the result is P*Qᵀ, and what M has more than that is the
// next step's error memory. So both factors are sent as large as M, and 16 bits hold them if
// they hold M's singular values.
// A gradient of more dimensions is a matrix of its first one by the rest. Those that
// would not shrink by MinRate, and those of dtypes other than float32, float16 and bfloat16, are averaged as they are. It
// computes in float32, and starts two ops for each bucket: one with all P and what is not
// compressed, one with all Q.
//
// Q and the count of steps are equal on all replicas (State), error memory is a replica's own (Errors):
//
//	p, err := powersgd.New(params, powersgd.Config{Rank: 2, Start: 1000})
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
// Optimization"; torch's powerSGD_hook, which makes Q orthonormal on warm starts too, sends P and
// the uncompressed as two ops, and keeps for the latter an error memory that cancels out.
type Hook struct {
	cfg   Config
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

// New makes the hook for params, which are those of the Reducer. It returns all
// problems, joined.
func New(params []ddp.Param, cfg Config) (*Hook, error) {
	if err := cfg.fill(); err != nil {
		return nil, fmt.Errorf("powersgd: %w", err)
	}
	h := &Hook{cfg: cfg, draw: newDrawer(cfg.Seed), mats: make([]*matrix, len(params))}
	for i, p := range params {
		h.names = append(h.names, p.Name)
		dtype, shape := p.DType, p.Shape
		if !p.Grad.IsNone() {
			dtype, shape = p.Grad.DType(), p.Grad.Shape()
		}
		if m := cfg.matrixOf(dtype, shape); m != nil {
			h.mats[i] = m
			h.draw.fill(m.q, drawn{param: i})
			orthogonalize(m.q, m.m, float32(cfg.Epsilon))
		}
	}
	return h, nil
}

// matrixOf is what a gradient of a shape is compressed as, or nil.
func (c *Config) matrixOf(dtype tensor.DType, shape []int) *matrix {
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
func (h *Hook) Compression() (elements, sent int) {
	for _, m := range h.mats {
		if m != nil {
			elements += m.n * m.m
			sent += (m.n + m.m) * m.rank
		}
	}
	return elements, sent
}

// Phase is how many steps count.
func (h *Hook) Phase() int64 { return h.steps[0] }

// Begin begins step number phase, from 0.
func (h *Hook) Begin(phase int64) {
	h.now = phase
	for _, m := range h.mats {
		if m != nil {
			m.used = false
		}
	}
}

// Commit keeps the factors and the error memory of the step.
func (h *Hook) Commit() {
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

// The names of a hook's state: of a parameter's tensors, and of the count of steps.
const (
	tensorSteps = "steps" // int64
	prefixQ     = "q."
	prefixError = "error."
)

// State is the count of steps and the right factors, as views: equal on all replicas.
func (h *Hook) State() checkpoint.State {
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
func (h *Hook) Load(checkpoint.State) error {
	if h.steps[0] < 0 {
		return fmt.Errorf("powersgd: the state's steps = %d, want 0 or more", h.steps[0])
	}
	return nil
}

// Errors is this replica's error memory, as views; empty with NoFeedback.
func (h *Hook) Errors() checkpoint.State {
	s := checkpoint.State{Tensors: map[string]tensor.Tensor{}}
	for i, m := range h.mats {
		if m != nil && m.err != nil {
			s.Tensors[prefixError+h.names[i]] = tensor.Of(m.err)
		}
	}
	return s
}
