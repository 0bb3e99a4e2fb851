package chaos

import (
	"slices"
	"time"
)

// deck deals a world its faults. Of each part of the menu all come up, each as often as its
// weight says, before one comes up more often; and no part runs ahead of the others by more
// than ahead, so that the ones that are quickly over do not take the place of the others.
type deck struct {
	parts []*pile
	total int // of all weights
	dealt int
}

// pile is what is yet to come of a part of the menu.
type pile struct {
	all, left []mishap
	dealt     int
	until     time.Time // the next one is tried by then; then the one behind it
}

const (
	ahead = 3
	// patienceOfOne is how long a fault waits until what it would hit is well.
	patienceOfOne = 10 * time.Second
)

// newDeck has what this machine can do.
func newDeck(w *world) *deck {
	d := &deck{}
	for _, part := range menu {
		p := &pile{}
		for _, m := range part {
			if _, lacks := w.missing[m.needs]; !lacks {
				p.all = append(p.all, slices.Repeat([]mishap{m}, m.weight)...)
			}
		}
		if len(p.all) > 0 {
			d.parts, d.total = append(d.parts, p), d.total+len(p.all)
		}
	}
	return d
}

// deal brings the next one of each part about, if it is that part's turn and it can be, and
// returns those: atMost of them.
func (d *deck) deal(w *world, atMost int) (came []mishap) {
	for _, p := range d.parts {
		if len(came) == atMost || p.dealt*d.total > (d.dealt+ahead)*len(p.all) {
			continue
		}
		m := p.next(w)
		if !m.befall(w) {
			continue
		}
		p.left, p.until = p.left[1:], time.Time{}
		p.dealt, d.dealt = p.dealt+1, d.dealt+1
		came = append(came, m)
	}
	return came
}

// next is the one that comes next.
func (p *pile) next(w *world) mishap {
	now := time.Now()
	if !p.until.IsZero() && now.After(p.until) {
		w.say("not possible for %v: %s", patienceOfOne, p.left[0].name)
		p.left, p.until = p.left[1:], time.Time{}
	}
	if len(p.left) == 0 {
		p.left = slices.Clone(p.all)
		w.rng.Shuffle(len(p.left), func(i, j int) { p.left[i], p.left[j] = p.left[j], p.left[i] })
	}
	if p.until.IsZero() {
		p.until = now.Add(patienceOfOne)
	}
	return p.left[0]
}
