package quorum_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// What no ledger can hold is refused, and named.
func TestLedgerValidate(t *testing.T) {
	t.Parallel()
	l := quorum.NewLedger("x", "default", 1000)
	mustApply(t, &l, formed(nil, 1001, 1, "a", "b"))
	mustApply(t, &l, formed(l.Last, 1002, 1, "a", "b", "c"))
	if err := l.Validate(); err != nil {
		t.Fatalf("a ledger that was applied: %v", err)
	}
	long := strings.Repeat("x", 300)
	for want, break1 := range map[string]func(l *quorum.Ledger, q *quorum.Quorum){
		"Cluster has 300 bytes, want at most 256":  func(l *quorum.Ledger, _ *quorum.Quorum) { l.Cluster = long },
		"Job has 300 bytes, want at most 256":      func(l *quorum.Ledger, _ *quorum.Quorum) { l.Job = long },
		"Client = 9, want at most 2":               func(l *quorum.Ledger, _ *quorum.Quorum) { l.Client = 9 },
		"HighestID = -1, want 0 to":                func(l *quorum.Ledger, _ *quorum.Quorum) { l.HighestID = -1 },
		"HighestID = 9223372036854775807, want":    func(l *quorum.Ledger, _ *quorum.Quorum) { l.HighestID = 1<<63 - 1 },
		"HighestID = 5, want at least Last's":      func(l *quorum.Ledger, _ *quorum.Quorum) { l.HighestID = 5 },
		"last quorum: quorum: invalid: Round = -1": func(_ *quorum.Ledger, q *quorum.Quorum) { q.Round = -1 },
		"quorum of 0 members, want 1 to 16384":     func(_ *quorum.Ledger, q *quorum.Quorum) { q.Members = nil },
		"quorum of 16385 members, want":            func(_ *quorum.Ledger, q *quorum.Quorum) { q.Members = make([]quorum.Member, 16385) },
		"Members[1]: quorum: invalid: replica id is empty": func(_ *quorum.Ledger, q *quorum.Quorum) {
			q.Members = []quorum.Member{{ReplicaID: "a"}, {}}
		},
		`Members[1]: "a" does not come after "b"`: func(_ *quorum.Ledger, q *quorum.Quorum) {
			q.Members = []quorum.Member{{ReplicaID: "b"}, {ReplicaID: "a"}}
		},
		"Participants has 4 entries, want at most 3": func(_ *quorum.Ledger, q *quorum.Quorum) {
			q.Participants = []quorum.ReplicaID{"a", "b", "c", "d"}
		},
		"Settled has 65 entries, want at most 64": func(l *quorum.Ledger, _ *quorum.Quorum) { l.Settled = make([]quorum.Settlement, 65) },
		"Settled[0]: quorum: invalid: its Outcome = 7": func(l *quorum.Ledger, _ *quorum.Quorum) {
			l.Settled = []quorum.Settlement{{Outcome: 7}}
		},
		"Digests: 5000, want at most 4096": func(l *quorum.Ledger, _ *quorum.Quorum) {
			l.Settled = []quorum.Settlement{{Digests: make([]quorum.Digest, 5000)}}
		},
		"Drained[0]: quorum: invalid: replica id is empty": func(l *quorum.Ledger, _ *quorum.Quorum) { l.Drained = []quorum.ReplicaID{""} },
		"Evicted has 1025 entries, want at most 1024":      func(l *quorum.Ledger, _ *quorum.Quorum) { l.Evicted = make([]quorum.ReplicaID, 1025) },
		"its config: MinReplicas = 0, want 1 to":           func(l *quorum.Ledger, _ *quorum.Quorum) { l.Config = &quorum.Config{JoinTimeout: time.Second} },
		"History has 257 entries, want at most 256":        func(l *quorum.Ledger, _ *quorum.Quorum) { l.History = make([]quorum.HistoryEntry, 257) },
		"History[0]: its settlement: quorum: invalid: Step = -2": func(l *quorum.Ledger, _ *quorum.Quorum) {
			l.History = []quorum.HistoryEntry{{Settlement: quorum.Settlement{Step: -2}}}
		},
	} {
		broken, q := l.Clone(), *l.Last
		broken.Last = &q
		break1(&broken, &q)
		if err := broken.Validate(); !errors.Is(err, quorum.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ErrInvalid with %q", err, want)
		}
	}
}

// A command that no machine makes is refused, and changes nothing.
func TestLedgerRefusesAbsurdQuorums(t *testing.T) {
	t.Parallel()
	l := quorum.NewLedger("x", "default", 1000)
	mustApply(t, &l, formed(nil, 1001, 1, "a", "b"))
	for _, f := range []quorum.Formed{
		formed(l.Last, 1<<53+1, 1, "a"), formed(l.Last, 1002, -1, "a"), formed(l.Last, 1002, 1, "b", "a"),
		formed(l.Last, 1002, 1, "a", ""), formed(l.Last, 1002, 1, "a", "a"),
	} {
		before := l.Last
		if err := l.ApplyFormed(f); !errors.Is(err, quorum.ErrInvalid) || l.Last != before || len(l.History) != 1 {
			t.Errorf("quorum %d round %d of %v: %v, want ErrInvalid and the ledger as it was", f.Quorum.ID, f.Quorum.Round, f.Quorum.Members, err)
		}
	}
}
