package quorum

import (
	"cmp"
	"slices"
	"time"
)

// This file is who is the odd one of a quorum in which collectives differed. It is
// judged of all that was said of that quorum, and anew with each further word: which
// of two is odd depends on how many others differ from each, and the first word that
// comes knows of one. The members join with what they have to say, so all is said when
// the next quorum is decided. (The odd one was heard first: of the two newcomers whom
// it named, the innocent one was refused, for as long as the odd one, and each time
// both were over they came back together.)

// maxTrial bounds the pairs of one quorum, each a judgement for each further word: a
// newcomer beside hundreds is known by far fewer.
const maxTrial = 128

// trial is what was said of the last quorum.
type trial struct {
	quorumID int64
	pairs    []accusedPair
	before   []refusal // of those who were found odd: as they were before this quorum
	new      []string  // their names, for whom nothing was remembered then
	told     []string  // the names of those whose refusal was told
}

// accusedPair is two members that called different things, the first by its own word.
type accusedPair struct {
	a, b ReplicaID
	said Accusation
}

// tells notes that the refusal of a name is told; false if it was.
func (t *trial) tells(name string) bool {
	if slices.Contains(t.told, name) {
		return false
	}
	t.told = append(t.told, name)
	return true
}

// adds notes a pair; false if it was known.
func (t *trial) adds(a Accusation) bool {
	if t.quorumID != a.QuorumID {
		*t = trial{quorumID: a.QuorumID}
	}
	x, y := min(a.By, a.Against), max(a.By, a.Against)
	known := slices.ContainsFunc(t.pairs, func(p accusedPair) bool { return p.a == x && p.b == y })
	if known || len(t.pairs) >= maxTrial {
		return false
	}
	t.pairs = append(t.pairs, accusedPair{x, y, a})
	return true
}

// complainOdd takes in that one member called something else than another, and judges
// their quorum anew.
func (m *Machine) complainOdd(now time.Time, a Accusation) {
	news := m.replicas[a.By].odd.differFrom(a.Against, a.QuorumID)
	news = m.replicas[a.Against].odd.differFrom(a.By, a.QuorumID) || news
	if pair := m.trial.adds(a); !pair && !news {
		return
	}
	m.note(a)
	m.acquit()
	for _, f := range m.findings() {
		m.convict(now, f.culprit, f.said)
	}
	m.tellInnocent(now)
}

// finding is the judgement of one pair.
type finding struct {
	culprit, other *replica
	said           Accusation
}

// findings are the odd ones of the last quorum, each once. The word of whoever has most
// to show is taken first, and who differs from an odd one is not odd by that. (One that
// had trained alone, and was odd, was in the right against a newcomer, though the one
// that trained now had named it: both were refused, each time they came back together.)
func (m *Machine) findings() (odd []finding) {
	var all []finding
	for _, p := range m.trial.pairs {
		x, y := m.replicas[p.a], m.replicas[p.b]
		if x == nil || y == nil {
			continue
		}
		f := finding{x, y, p.said}
		if m.oddOne(x, y) == y {
			f.culprit, f.other = y, x
		}
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(f, g finding) int {
		return cmp.Or(cmp.Compare(m.standing(g.other), m.standing(f.other)),
			cmp.Compare(len(g.culprit.odd.differed), len(f.culprit.odd.differed)))
	})
	known := func(r *replica) bool {
		return slices.ContainsFunc(odd, func(f finding) bool { return f.culprit == r })
	}
	for _, f := range all {
		if !known(f.culprit) && !known(f.other) {
			odd = append(odd, f)
		}
	}
	return odd
}

// tellInnocent tells of those whose refusal was told, and who are not the odd ones by
// what was said since.
func (m *Machine) tellInnocent(now time.Time) {
	t := &m.trial
	for _, p := range t.pairs {
		for _, id := range []ReplicaID{p.a, p.b} {
			r := m.replicas[id]
			told := slices.Index(t.told, replicaName(id))
			if r == nil || told < 0 || m.refused(now, r) {
				continue
			}
			t.told = slices.Delete(t.told, told, told+1)
			m.event(EventCleared, id, "let in after all: another one is the odd one")
		}
	}
}

// acquit forgets what was found before in this quorum.
func (m *Machine) acquit() {
	t := &m.trial
	for _, was := range t.before {
		if f := m.refusalNamed(was.name); f != nil {
			was.differs = was.differs || f.differs // of that it accuses itself
			*f = was
		}
	}
	m.refusals = slices.DeleteFunc(m.refusals, func(f refusal) bool {
		return slices.Contains(t.new, f.name) && !f.differs
	})
	t.before, t.new = nil, nil
}

// convict notes that a replica was the odd one of the last quorum.
func (m *Machine) convict(now time.Time, r *replica, a Accusation) {
	t := &m.trial
	if f := m.refusalOf(r.id); f != nil {
		t.before = append(t.before, *f)
	} else {
		t.new = append(t.new, replicaName(r.id))
	}
	f := m.remember(now, r)
	if f.broken != a.QuorumID {
		f.broke, f.broken = f.broke+1, a.QuorumID
	}
	if f.times > 0 || f.broke >= 2 {
		m.refuse(now, r, f, a)
	}
}
