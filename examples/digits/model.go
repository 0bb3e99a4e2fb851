package digits

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
)

// Hidden is the width of the hidden layer.
const Hidden = 128

// Param is one parameter with its gradient, both flat.
type Param struct {
	Name        string
	Shape       []int
	Value, Grad []float32
}

// Model is a perceptron with one hidden layer: Pixels → Hidden (ReLU) →
// Classes (softmax, cross-entropy). It is owned by one goroutine.
type Model struct {
	w1, b1, w2, b2 Param

	hidden, delta []float32 // scratch, of one row
}

// NewModel makes a model whose weights are drawn from seed (He's
// initialisation), the same on every replica.
func NewModel(seed uint64) *Model {
	r := rand.New(rand.NewPCG(seed, streamInit))
	m := &Model{
		w1: newParam("w1", Hidden, Pixels), b1: newParam("b1", Hidden),
		w2: newParam("w2", Classes, Hidden), b2: newParam("b2", Classes),
		hidden: make([]float32, Hidden), delta: make([]float32, Hidden),
	}
	m.w1.draw(r, Pixels)
	m.w2.draw(r, Hidden)
	return m
}

func newParam(name string, shape ...int) Param {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return Param{Name: name, Shape: shape, Value: make([]float32, n), Grad: make([]float32, n)}
}

func (p Param) draw(r *rand.Rand, fanIn int) {
	scale := math.Sqrt(2 / float64(fanIn))
	for i := range p.Value {
		p.Value[i] = float32(r.NormFloat64() * scale)
	}
}

// Params lists the parameters in the order of the forward pass. They share
// the model's memory.
func (m *Model) Params() []Param { return []Param{m.w1, m.b1, m.w2, m.b2} }

// The indices of Params.
const (
	paramW1 = iota
	paramB1
	paramW2
	paramB2
)

// forward computes one row's class probabilities into probs, and leaves the
// hidden layer in m.hidden.
func (m *Model) forward(image, probs []float32) {
	for h := range m.hidden {
		sum := m.b1.Value[h]
		for i, w := range m.w1.Value[h*Pixels : (h+1)*Pixels] {
			sum += w * image[i]
		}
		m.hidden[h] = max(sum, 0)
	}
	for c := range probs {
		sum := m.b2.Value[c]
		for h, w := range m.w2.Value[c*Hidden : (c+1)*Hidden] {
			sum += w * m.hidden[h]
		}
		probs[c] = sum
	}
	softmax(probs)
}

func softmax(x []float32) {
	most := x[0]
	for _, v := range x {
		most = max(most, v)
	}
	var sum float32
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v - most)))
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

// Learn runs the forward and backward pass over a batch. It adds the batch's
// mean gradient to every Grad and returns the mean loss. ready, if not nil, is
// called with a parameter's index once its gradient is final; the last layer's
// come first.
func (m *Model) Learn(batch *Dataset, ready func(param int)) float64 {
	probs := make([]float32, Classes)
	share := 1 / float32(batch.Len())
	var loss float64
	for row, label := range batch.Labels {
		m.forward(batch.Image(row), probs)
		loss -= math.Log(max(float64(probs[label]), math.SmallestNonzeroFloat32))
		probs[label]--
		m.backward(batch.Image(row), probs, share)
	}
	if ready != nil {
		for _, i := range []int{paramB2, paramW2, paramB1, paramW1} {
			ready(i)
		}
	}
	return loss / float64(batch.Len())
}

// backward adds one row's gradients: errs is the derivative of its loss by
// the logits.
func (m *Model) backward(image, errs []float32, share float32) {
	clear(m.delta)
	for c, e := range errs {
		e *= share
		m.b2.Grad[c] += e
		weights, grads := m.w2.Value[c*Hidden:(c+1)*Hidden], m.w2.Grad[c*Hidden:(c+1)*Hidden]
		for h, active := range m.hidden {
			grads[h] += e * active
			m.delta[h] += e * weights[h]
		}
	}
	for h, d := range m.delta {
		if m.hidden[h] == 0 {
			continue
		}
		m.b1.Grad[h] += d
		grads := m.w1.Grad[h*Pixels : (h+1)*Pixels]
		for i, ink := range image {
			grads[i] += d * ink
		}
	}
}

// Accuracy is the part of d's rows that the model gets right, 0 to 1.
func (m *Model) Accuracy(d *Dataset) float64 {
	probs := make([]float32, Classes)
	right := 0
	for row, label := range d.Labels {
		m.forward(d.Image(row), probs)
		best := 0
		for c, p := range probs {
			if p > probs[best] {
				best = c
			}
		}
		if best == label {
			right++
		}
	}
	return float64(right) / float64(d.Len())
}

// Hash is the SHA-256 of all parameters, little-endian, in hexadecimal: equal
// for two models only if they are equal bit for bit.
func (m *Model) Hash() string {
	sum := sha256.New()
	for _, p := range m.Params() {
		b := make([]byte, 0, 4*len(p.Value))
		for _, v := range p.Value {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		sum.Write(b)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
