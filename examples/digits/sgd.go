package digits

import "github.com/skerry-ft/skerry/internal/failpoint"

// SGD is stochastic gradient descent with momentum. The rate is constant for
// the first half of the steps and then falls linearly to nothing, so that the
// end of a run does not depend on its last few batches.
type SGD struct {
	Rate     float32
	Momentum float32
	Steps    int64 // of the whole run
	Taken    int64 // so far; part of the state

	params   []Param
	velocity [][]float32 // by parameter; part of the state
	points   failpoint.Hook
}

// NewSGD makes an optimizer for a run of steps.
func NewSGD(params []Param, steps int64) *SGD {
	o := &SGD{Rate: 0.1, Momentum: 0.9, Steps: steps, params: params}
	for _, p := range params {
		o.velocity = append(o.velocity, make([]float32, len(p.Value)))
	}
	return o
}

// ZeroGrad forgets the gradients.
func (o *SGD) ZeroGrad() {
	for _, p := range o.params {
		clear(p.Grad)
	}
}

// Step applies the gradients, unless the run is over.
func (o *SGD) Step() {
	if o.Taken >= o.Steps {
		return
	}
	rate := o.rate()
	for i, p := range o.params {
		if i == len(o.params)/2 {
			o.points.At(failpoint.ApplyDuring)
		}
		v := o.velocity[i]
		for j, g := range p.Grad {
			v[j] = o.Momentum*v[j] + g
			p.Value[j] -= rate * v[j]
		}
	}
	o.Taken++
}

func (o *SGD) rate() float32 {
	left := float32(o.Steps-o.Taken) / float32(max(o.Steps, 1))
	return o.Rate * min(1, max(0, 2*left))
}
