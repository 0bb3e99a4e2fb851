package quorum_test

import (
	"errors"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// One replica that names ids which no lighthouse issued is refused, in whatever it
// says, and does not stop the others: the next id is one that they can read.
func TestIDsThatWereNotIssuedAreRefused(t *testing.T) {
	t.Parallel()
	const bad = int64(quorum.MaxStep)
	s, q := standingScene(t, "a", "b", "c")
	position := quorum.Position{Cluster: "x", Step: 1, QuorumID: bad}
	last := &quorum.LastAnswer{QuorumID: bad, Round: 1, Members: q.Members}
	inside := &quorum.LastAnswer{QuorumID: q.ID, Round: 9, Members: []quorum.Member{{ReplicaID: "c", Position: position}}}
	join := func(change func(*quorum.Join)) error {
		j := skerryJoin("c", 9)
		change(&j)
		return s.Join(s.now, j)
	}
	for name, err := range map[string]error{
		"beat":              s.Beat(s.now, "c", quorum.Beat{QuorumID: bad}),
		"beat's position":   s.Beat(s.now, "c", quorum.Beat{Position: position}),
		"hello's position":  s.Open(s.now, quorum.Hello{ReplicaID: "c", Client: quorum.KindSkerry, Position: position}),
		"hello's answer":    s.Open(s.now, quorum.Hello{ReplicaID: "c", Client: quorum.KindSkerry, Last: last}),
		"join's position":   join(func(j *quorum.Join) { j.Member.Position = position }),
		"join's fact":       join(func(j *quorum.Join) { j.Fact = quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: bad} }),
		"join's answer":     join(func(j *quorum.Join) { j.Last = last }),
		"answer's position": join(func(j *quorum.Join) { j.Last = inside }),
	} {
		if !errors.Is(err, quorum.ErrNotIssued) {
			t.Errorf("%s of quorum 2^53: %v, want %v", name, err, quorum.ErrNotIssued)
		}
	}
	for _, id := range []quorum.ReplicaID{"a", "b", "c"} {
		j := skerryJoin(id, 10)
		j.Last = &quorum.LastAnswer{QuorumID: q.ID, Round: q.Round, Members: q.Members}
		s.join(j)
	}
	if next := s.form(); next.ID != q.ID+1 {
		t.Errorf("the next quorum is %d, want %d", next.ID, q.ID+1)
	}
	// A lighthouse that lost its ledger takes what an older one issued, by a clock
	// that went before its own.
	ahead := s.now.Add(time.Hour).UnixMilli()
	if err := s.Beat(s.now, "a", quorum.Beat{QuorumID: ahead}); err != nil {
		t.Errorf("beat of quorum %d: %v", ahead, err)
	}
}
