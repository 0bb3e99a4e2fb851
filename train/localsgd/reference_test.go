package localsgd_test

import "github.com/skerry-ft/skerry/train/localsgd"

// reference is the algorithms once more, in float64, for all ranks at once, written from
// the papers: a plain average if outer is nil, and else DiLoCo.
type reference struct {
	outer         *localsgd.SGD
	period, delay int
	alpha         float64

	live   []matrix // by rank
	away   matrix   // what was reduced, of the round under way: one fragment
	global matrix   // by fragment
	moment matrix
	steps  []int // outer steps, by fragment
	round  int   // committed
	taken  int
	t      int
}

type matrix [][]float64

func newReference(s sizes, ranks int) *reference {
	r := &reference{steps: make([]int, len(s))}
	for range ranks {
		r.live = append(r.live, wide(s.fresh().flat()))
	}
	r.global, r.moment = wide(s.fresh().flat()), wide(s.fresh().flat())
	return r
}

func wide(m [][]float32) matrix {
	var w matrix
	for _, row := range m {
		var x []float64
		for _, v := range row {
			x = append(x, float64(v))
		}
		w = append(w, x)
	}
	return w
}

// inner makes an inner step on all ranks, and ends the round if it is the last; commits
// says how.
func (r *reference) inner(commits bool) {
	for rank, live := range r.live {
		for f, x := range live {
			for i, v := range x {
				x[i] += pull(rank, r.t, f, i, v)
			}
		}
	}
	r.t++
	r.taken++
	f := r.round % len(r.global)
	if r.taken == r.period-r.delay {
		r.away = matrix{r.reduced(f)}
	}
	if r.taken < r.period {
		return
	}
	r.taken = 0
	if commits {
		r.outerStep(f, r.away[0])
		r.round++
	}
	for _, live := range r.live {
		for i := range live[f] {
			if commits {
				live[f][i] = (1-r.alpha)*r.global[f][i] + r.alpha*live[f][i]
			} else {
				live[f][i] = r.global[f][i]
			}
		}
	}
}

// reduced is the average over ranks of what they bring.
func (r *reference) reduced(f int) []float64 {
	sum := make([]float64, len(r.global[f]))
	for _, live := range r.live {
		for i, v := range live[f] {
			if r.outer != nil {
				v = r.global[f][i] - v
			}
			sum[i] += v / float64(len(r.live))
		}
	}
	return sum
}

func (r *reference) outerStep(f int, average []float64) {
	for i, g := range average {
		if r.outer == nil {
			r.global[f][i] = g
			continue
		}
		mu := float64(r.outer.Momentum)
		b := g
		if r.steps[f] > 0 {
			b = mu*r.moment[f][i] + g
		}
		r.moment[f][i] = b
		if r.outer.Nesterov {
			b = g + mu*b
		}
		r.global[f][i] -= float64(r.outer.Rate) * b
	}
	r.steps[f]++
}
