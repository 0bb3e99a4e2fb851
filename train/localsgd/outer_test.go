package localsgd

import (
	"math"
	"testing"
)

// The numbers were worked out by hand from torch.optim.SGD's pages: a parameter of 1 with
// gradients of 0.5, 0.5 and -1.
func TestSGD(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sgd  SGD
		want [3]float64
	}{
		"plain":     {SGD{Rate: 0.1}, [3]float64{0.95, 0.9, 1}},
		"momentum":  {SGD{Rate: 0.1, Momentum: 0.9}, [3]float64{0.95, 0.855, 0.8695}},
		"nesterov":  {SGD{Rate: 0.1, Momentum: 0.9, Nesterov: true}, [3]float64{0.905, 0.7695, 0.88255}},
		"dampening": {SGD{Rate: 0.1, Momentum: 0.9, Dampening: 0.5}, [3]float64{0.95, 0.88, 0.867}},
		"decay":     {SGD{Rate: 0.1, WeightDecay: 0.2}, [3]float64{0.93, 0.8614, 0.944172}},
	} {
		p, b := []float32{1}, make([]float32, 1)
		for i, g := range []float32{0.5, 0.5, -1} {
			c.sgd.step(p, b, []float32{g}, i == 0)
			if math.Abs(float64(p[0])-c.want[i]) > 1e-6 {
				t.Errorf("%s: step %d makes it %v, want %v", name, i, p[0], c.want[i])
			}
		}
	}
}

func TestLerp(t *testing.T) {
	t.Parallel()
	for _, c := range [][4]float32{{3, 7, 0, 3}, {3, 7, 1, 7}, {3, 7, 0.25, 4}, {3, 7, 0.75, 6}, {1e8, 1, 1, 1}} {
		if got := lerp(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("from %v to %v by %v: %v, want %v", c[0], c[1], c[2], got, c[3])
		}
	}
}
