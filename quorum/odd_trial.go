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
//
// a trains; x and y are newcomers that were let in together, and x is odd:
//
//	x says that y differs    y is found odd: they are equals, and y has the larger id
//	a says that x differs    x is odd, by the word of one that has more to show. That frees y,
//	                         which differs from the odd one alone: its finding is taken back

// trial is what was said of the last quorum. What it has found so far can be taken back: before
// and new hold what a judgement has changed in Machine.refusals. The zero value has heard nothing.
type trial struct {
	quorumID int64         // it begins anew with the first word about another one
	pairs    []accusedPair // in the order in which they were said, each once
	before   []refusal     // of those who were found odd: as they were before this quorum
	new      []string      // their names, for whom nothing was remembered then
	told     []string      // the names of those whose refusal was told
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

// adds notes a pair; false if it is known, or one of its members is in so many that
// another one tells nothing new. (Each pair is a judgement: of one odd newcomer among a
// thousand all say so.)
func (t *trial) adds(a Accusation) bool {
	// What was said of an earlier quorum was judged there.
	if t.quorumID != a.QuorumID {
		*t = trial{quorumID: a.QuorumID}
	}
	// A pair, not a word: both ends of one difference say so, and it is one difference.
	x, y := min(a.By, a.Against), max(a.By, a.Against)
	of := map[ReplicaID]int{}
	for _, p := range t.pairs {
		if p.a == x && p.b == y {
			return false
		}
		of[p.a]++
		of[p.b]++
	}
	// The bound is each member's, so that there is room for those who name a second odd one
	// (TestTrialHasRoomForASecondOddOne).
	if of[x] >= maxDiffered || of[y] >= maxDiffered || len(t.pairs) >= maxTrial {
		return false
	}
	t.pairs = append(t.pairs, accusedPair{x, y, a})
	return true
}

// maxTrial bounds the pairs of one quorum: sixteen that nobody else is like.
const maxTrial = maxDiffered * maxDiffered

// own takes in what a replica says of itself in a quorum in which it was found odd: that
// stays if it is acquitted.
func (t *trial) own(now time.Time, name string, a Accusation) {
	// Of a quorum that is not on trial there is nothing to acquit it of.
	if a.QuorumID != t.quorumID {
		return
	}
	// Its name was first remembered by this trial, and would be forgotten with an acquittal. Now it
	// is remembered as one that was known before, by its own word.
	if i := slices.Index(t.new, name); i >= 0 {
		t.new = slices.Delete(t.new, i, i+1)
		t.before = append(t.before, refusal{name: name, until: now})
	}
	for i := range t.before {
		f := &t.before[i]
		// Once in a quorum, as complain counts it.
		if f.name == name && f.broken != a.QuorumID {
			f.broke, f.broken = f.broke+1, a.QuorumID
			f.differs = f.differs || a.Kind == AccusedDiffers
		}
	}
}

// complainOdd takes in that one member called something else than another, and judges
// their quorum anew.
func (m *Machine) complainOdd(now time.Time, a Accusation) {
	// Both differ, each from the other: how many differ from a member is what tells the odd one
	// among equals (oddOne).
	news := m.replicas[a.By].odd.differFrom(a.Against, a.QuorumID)
	news = m.replicas[a.Against].odd.differFrom(a.By, a.QuorumID) || news
	if !m.trial.adds(a) {
		// It changes no judgement, and is told all the same, for the history.
		if news {
			m.note(a)
		}
		return
	}
	m.note(a)
	// §6a: anew with each word, from what was so before the quorum. Were it added to what fewer
	// words had found, an innocent one would stay refused.
	m.clearFindings()
	for _, f := range m.findings() {
		m.recordOdd(now, f.culprit, f.said)
	}
	m.tellInnocent(now)
}

// finding is the judgement of one pair.
type finding struct {
	culprit, other *replica
	shows          [2]int // the standing of both
	said           Accusation
}

// frees says that whoever differs from f's culprit is not odd by that: the culprit was
// found so by one that has more to show. (Else two that lie together would set an odd one
// free, by the word of one.)
func (f finding) frees(g finding) bool { return f.culprit == g.other && f.shows[1] > f.shows[0] }

// findings are the odd ones of the last quorum, each once. The word of whoever has most
// to show is taken first, and who differs from an odd one is not odd by that, see frees. (One that
// had trained alone, and was odd, was in the right against a newcomer, though the one
// that trained now had named it: both were refused, each time they came back together.)
func (m *Machine) findings() (odd []finding) {
	var all []finding
	for _, p := range m.trial.pairs {
		x, y := m.replicas[p.a], m.replicas[p.b]
		// Its record is gone, and with it what it has to show.
		if x == nil || y == nil {
			continue
		}
		// Which of the two said so does not count: each end of a difference sees it.
		if m.oddOne(x, y) == y {
			x, y = y, x
		}
		all = append(all, finding{x, y, [2]int{m.merit(x), m.merit(y)}, p.said})
	}
	// First what is said by who has most to show; of these, against the one from which most differ.
	// Stable, so that equals stay in the order of the words: same input, same output.
	slices.SortStableFunc(all, func(f, g finding) int {
		return cmp.Or(cmp.Compare(g.shows[1], f.shows[1]),
			cmp.Compare(len(g.culprit.odd.differed), len(f.culprit.odd.differed)))
	})
	for _, f := range all {
		// Those that were taken before have the better word, so one pass is enough.
		if !slices.ContainsFunc(odd, func(g finding) bool { return g.culprit == f.culprit || g.frees(f) }) {
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

// clearFindings forgets what was found before in this quorum: what was remembered of a name
// before it is so again, for the judgement that follows begins from there.
func (m *Machine) clearFindings() {
	t := &m.trial
	for _, was := range t.before {
		if f := m.refusalNamed(was.name); f != nil {
			*f = was
		}
	}
	m.refusals = slices.DeleteFunc(m.refusals, func(f refusal) bool { return slices.Contains(t.new, f.name) })
	t.before, t.new = nil, nil
}

// recordOdd notes that a replica was the odd one of the last quorum.
func (m *Machine) recordOdd(now time.Time, r *replica, a Accusation) {
	t := &m.trial
	// What is to come back if a later word acquits it.
	if f := m.refusalOf(r.id); f != nil {
		t.before = append(t.before, *f)
	} else {
		t.new = append(t.new, replicaName(r.id))
	}
	f := m.remember(now, r)
	// Its own word may have counted this quorum already (complain).
	if f.broken != a.QuorumID {
		f.broke, f.broken = f.broke+1, a.QuorumID
	}
	// L1: the first time may be an accident of a start; after a hold-off one quorum tells
	// whether it is still so.
	if f.times > 0 || f.broke >= 2 {
		m.refuse(now, r, f, a)
	}
}
