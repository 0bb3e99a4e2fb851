package cluster

import (
	"testing"

	"github.com/hashicorp/raft"
)

// What a server acknowledged, and was committed, is remembered when others lead:
// old data are found out though the leader has changed since.
func TestPromisesOutliveTheTerm(t *testing.T) {
	t.Parallel()
	p := &raftPeers{acks: make(map[raft.ServerID]ack), kept: make(map[raft.ServerID]uint64)}
	p.note("a", 3, 10)
	for _, c := range []struct {
		why             string
		term, committed uint64
		want            uint64
	}{
		{"nothing is known for good", 0, 10, 0},
		{"of this term, part of it committed", 3, 8, 10},
		{"no longer the leader: the rest may have been cut off", 0, 10, 8},
		{"leader again, nothing heard yet: its word of the last term counts as little", 5, 10, 8},
	} {
		if got := p.promised("a", c.term, c.committed); got != c.want {
			t.Errorf("%s: %d, want %d", c.why, got, c.want)
		}
	}
	p.note("a", 5, 9)
	if got := p.promised("a", 5, 9); got != 9 {
		t.Errorf("in the next term: %d, want 9", got)
	}
	if got := p.promised("b", 0, 9); got != 0 {
		t.Errorf("of a stranger: %d", got)
	}
}
