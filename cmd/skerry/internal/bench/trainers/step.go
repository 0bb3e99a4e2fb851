package trainers

import (
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// step is one step of all who are in the quorum: their ballots, and what comes of them. The
// ballot of one that is lost comes to none.
func (j *job) step(lost *member) error {
	in := j.inQuorum()
	if in == nil {
		return nil // a change is under way
	}
	ballots := make([]*quorum.Ballot, len(in[0].rank.Assignment().ReplicaIDs))
	var digest quorum.Digest
	witness := 0 // the replica rank of one that lives
	for _, m := range in {
		m.rank.Begin()
		m.rank.Issue()
		own := m.rank.Ballot(m.rank.HealedBeside())
		own.Digest = quorum.Digest{Valid: true, Sum: uint32(own.Position.Step + 1)}
		digest = own.Digest
		m.rank.Seal(own)
		if m != lost {
			witness = m.rank.Assignment().ReplicaRank
			ballots[witness] = &own
		}
	}
	// All ballots are the same, and so is what each member makes of them: it is judged once.
	verdict := quorum.JudgeBallots(witness, ballots)
	for _, m := range in {
		if m == lost {
			continue
		}
		if err := m.end(verdict, digest); err != nil {
			return err
		}
		m.pace(j)
		if err := j.join(m); err != nil {
			return err
		}
	}
	if lost == nil {
		j.all.saw(func(m *Measured) { m.Steps++ })
	}
	return nil
}

// inQuorum are those that train, or nil while a member of the quorum does not. Newcomers wait
// beside it.
func (j *job) inQuorum() []*member {
	var in []*member
	for _, m := range j.members {
		switch {
		case m.rank.Quorum() == nil && m.joined: // a newcomer
		case m.joined || !m.rank.Usable() || len(in) > 0 && m.rank.QuorumID() != in[0].rank.QuorumID():
			return nil
		default:
			in = append(in, m)
		}
	}
	if len(in) == 0 || len(in) != len(in[0].rank.Assignment().ReplicaIDs) {
		return nil
	}
	return in
}

// end votes, and takes what the vote comes to: the replica has one rank.
func (m *member) end(v quorum.Verdict, digest quorum.Digest) error {
	vote, _ := m.rank.Judged(v, digest, false)
	if err := m.polls.Vote(vote); err != nil {
		return fmt.Errorf("%s: %w", m.id, err)
	}
	m.rank.Voted()
	result, decided := m.polls.Result(vote.Attempt)
	if !decided {
		return fmt.Errorf("%s: its only rank has voted, and nothing is decided", m.id)
	}
	out := m.rank.Resolve(result, vote)
	if !out.Stands {
		m.rank.Fall(m.rank.QuorumID())
	}
	if m.rank.End(out).Asks {
		m.asks = m.rank.Ask()
	}
	m.moves++
	return nil
}

// pace draws how long the member's step took, a tenth around what is usual for it, and what it
// tells of late.
func (m *member) pace(j *job) {
	took := time.Duration(float64(m.usual) * (0.95 + j.draw.Float64()/10))
	m.own += (took - m.own) / 8
	m.wait += (j.o.Step - took - m.wait) / 8
}

// beat sends the beats that are due, spread over the interval.
func (j *job) beat(now time.Time) error {
	n := len(j.members)
	j.owed += now.Sub(j.beaten).Seconds() / j.interval.Seconds() * float64(n)
	j.owed = min(j.owed, float64(n)) // what comes late is one beat of each
	j.beaten = now
	sent := 0
	for ; j.owed >= 1; j.owed-- {
		j.turn++
		if err := j.members[j.turn%n].beat(); err != nil {
			return err
		}
		sent++
	}
	j.all.saw(func(m *Measured) { m.Beats += sent })
	return nil
}
