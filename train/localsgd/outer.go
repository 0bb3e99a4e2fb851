package localsgd

import "github.com/skerry-ft/skerry/internal/problems"

// SGD is stochastic gradient descent, as torch.optim.SGD computes it, in float32: with
// g the gradient, p the parameter and b the momentum of an element,
//
//	g = g + WeightDecay·p
//	b = Momentum·b + (1−Dampening)·g, and g in the first step
//	g = g + Momentum·b with Nesterov, else b
//	p = p − Rate·g
//
// where the lines of b are left out if Momentum is 0. Every operation rounds once, on any
// processor.
type SGD struct {
	Rate        float32 // above 0. DiLoCo's paper has 0.7
	Momentum    float32 // 0 to 1, without 1. DiLoCo's paper has 0.9
	Dampening   float32 // 0 to 1; 0 with Nesterov
	WeightDecay float32 // 0 or more
	Nesterov    bool    // wants Momentum above 0
}

func (o SGD) validate() error {
	bad := problems.List{Prefix: "Outer."}
	bad.Want(o.Rate > 0 && o.Rate-o.Rate == 0, "Rate", o.Rate, "a number above 0")
	bad.Want(o.Momentum >= 0 && o.Momentum < 1, "Momentum", o.Momentum, "0 or more, and less than 1")
	bad.Want(o.Dampening >= 0 && o.Dampening <= 1, "Dampening", o.Dampening, "0 to 1")
	bad.Want(o.WeightDecay >= 0 && o.WeightDecay-o.WeightDecay == 0, "WeightDecay", o.WeightDecay, "a number of 0 or more")
	bad.Want(!o.Nesterov || o.Momentum > 0 && o.Dampening == 0, "Nesterov", o.Nesterov,
		"false unless Momentum is above 0 and Dampening is 0 (they are %v and %v)", o.Momentum, o.Dampening)
	return bad.Err()
}

// step takes one step with gradients, over parameters and their momentum, which is
// empty without Momentum. The conversions keep the compiler from rounding once for two
// operations where the processor could: replicas on others would hold other bytes.
func (o SGD) step(params, momentum, gradients []float32, first bool) {
	for i, g := range gradients {
		if o.WeightDecay != 0 {
			g += float32(o.WeightDecay * params[i])
		}
		if o.Momentum != 0 {
			b := g
			if !first {
				b = float32(o.Momentum*momentum[i]) + float32((1-o.Dampening)*g)
			}
			momentum[i] = b
			if o.Nesterov {
				g += float32(o.Momentum * b)
			} else {
				g = b
			}
		}
		params[i] -= float32(o.Rate * g)
	}
}
