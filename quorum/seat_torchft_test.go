package quorum_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// Torchft's clients are told lists, however many they are: after a change of leader the quorum of a
// large job keeps its id, and no process group is made anew.
func TestManyOfTorchftKeepTheirQuorum(t *testing.T) {
	t.Parallel()
	const n = quorum.MaxListed + 6
	now := time.Unix(1_700_000_000, 0)
	step := func(m *quorum.Machine, number uint64) quorum.Quorum {
		t.Helper()
		for i := range n {
			j := quorum.Join{Client: quorum.KindTorchft, Kind: quorum.JoinStep, Number: number}
			j.Member = quorum.Member{ReplicaID: quorum.ReplicaID(fmt.Sprintf("r%04d", i)), GroupWorldSize: 1}
			if err := m.Join(now, j); err != nil {
				t.Fatal(err)
			}
		}
		d := m.Decide(now)
		if !d.Ready || len(d.Quorum.Members) != n {
			t.Fatalf("no quorum of %d: %v", n, d.Reason)
		}
		if !d.Changed {
			return d.Quorum
		}
		return m.Form(now, d, quorum.Token{1}, 1)
	}
	first := quorum.New(now, rules(n), quorum.NewLedger("x", "default", 1000))
	formed := step(first, 1)
	now = now.Add(time.Second)
	if again := step(quorum.New(now, rules(n), first.Ledger()), 2); again.ID != formed.ID {
		t.Errorf("behind a change of leader the quorum is %d, want %d", again.ID, formed.ID)
	}
}
