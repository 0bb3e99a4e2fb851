package quorum_test

import (
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/quorum"
)

// holderMissing is §4.5, with positions after settlement.
func (d *dumb) holderMissing(chosen, joined []quorum.Join, now []quorum.Settlement) string {
	top := quorum.Position{}
	whole := false
	for _, j := range chosen {
		whole = whole || !j.Member.Torn
		if p := d.positionAfter(j, now); p.Compare(top) > 0 {
			top = p
		}
	}
	if !whole {
		return "waiting for holder"
	}
	alike := slices.ContainsFunc(chosen, func(j quorum.Join) bool {
		return !j.Member.Torn && !j.Member.Differs && d.positionAfter(j, now) == top
	})
	for _, id := range d.ids() {
		p, j, there := d.claim(id, joined, now)
		good := j == nil || !j.Member.Torn && !j.Member.Differs
		// One that does not differ is worth more than those that do.
		if there && (p.Compare(top) > 0 || p == top && good && !alike) {
			return "waiting for holder"
		}
	}
	return ""
}

// claim is where a replica stands, by its join (nil if it has not joined) or by the last
// that it told, and whether it is there.
func (d *dumb) claim(id quorum.ReplicaID, joined []quorum.Join, now []quorum.Settlement) (p quorum.Position, j *quorum.Join, there bool) {
	there = d.live(id) || d.openAt(id, len(d.facts)-1) && !d.lost(id)
	for i := range joined {
		if joined[i].Member.ReplicaID == id {
			return d.positionAfter(joined[i], now), &joined[i], there
		}
	}
	return d.told(id), nil, there
}

// withHolder adds the holder of the highest position, if it has joined: shrink-only
// keeps it out no more than a refusal does (Q10).
func (d *dumb) withHolder(chosen, joined []quorum.Join, now []quorum.Settlement) []quorum.Join {
	var holder *quorum.Join
	var top quorum.Position
	found := false
	for _, id := range d.ids() {
		p, j, there := d.claim(id, joined, now)
		if !there || j != nil && j.Member.Torn {
			continue
		}
		differs := func(o *quorum.Join) bool { return o != nil && o.Member.Differs }
		better := differs(holder) && !differs(j) || differs(holder) == differs(j) && j != nil && holder == nil
		if c := p.Compare(top); !found || c > 0 || c == 0 && better {
			holder, top, found = j, p, true
		}
	}
	if holder == nil || slices.ContainsFunc(chosen, func(j quorum.Join) bool { return j.Member.ReplicaID == holder.Member.ReplicaID }) {
		return chosen
	}
	out := append(slices.Clone(chosen), *holder)
	slices.SortFunc(out, func(a, b quorum.Join) int {
		return strings.Compare(string(a.Member.ReplicaID), string(b.Member.ReplicaID))
	})
	return out
}
