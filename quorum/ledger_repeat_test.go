package quorum

import (
	"errors"
	"testing"
)

// An answer that is not written is told again only while the ledger holds none after it.
func TestLedgerRepeats(t *testing.T) {
	t.Parallel()
	l := NewLedger("c", "j", 0)
	if err := l.Repeats(Quorum{ID: 7, Round: 1}); err != nil {
		t.Errorf("a ledger without a quorum: %v, want none", err)
	}
	l.Last = &Quorum{ID: 7, Round: 2}
	for _, tc := range []struct {
		id, round int64
		fenced    bool
	}{{7, 2, false}, {7, 3, false}, {8, 1, false}, {7, 1, true}, {6, 9, true}} {
		if err := l.Repeats(Quorum{ID: tc.id, Round: tc.round}); errors.Is(err, ErrFenced) != tc.fenced {
			t.Errorf("quorum %d round %d beside 7 round 2: %v, want fenced %v", tc.id, tc.round, err, tc.fenced)
		}
	}
}

// A job is not forgotten if it has formed a quorum since it was found idle.
func TestLedgerForgets(t *testing.T) {
	t.Parallel()
	l := NewLedger("c", "j", 0)
	l.HighestID = 7
	for _, tc := range []struct {
		highest int64
		fenced  bool
	}{{0, false}, {7, false}, {8, false}, {6, true}} {
		if err := l.Forgets(tc.highest); errors.Is(err, ErrFenced) != tc.fenced {
			t.Errorf("as of id %d, with 7 in the ledger: %v, want fenced %v", tc.highest, err, tc.fenced)
		}
	}
}
