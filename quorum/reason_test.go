package quorum

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A reason names some of those who are refused, and counts the others: the ledger
// refuses a reason without a bound, and the job would form no quorum.
func TestReasonOfManyRefusedIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	m := New(now, DefaultConfig(), NewLedger("x", "default", 1000))
	m.last = &Quorum{ID: 1000}
	const all = 300
	for i := range all {
		id := ReplicaID(fmt.Sprintf("%03d%s", i, strings.Repeat("r", MaxIDBytes-3)))
		if err := m.Open(now, Hello{ReplicaID: id, Client: KindSkerry}); err != nil {
			t.Fatal(err)
		}
		m.last.Members = append(m.last.Members, Member{ReplicaID: id})
		m.refusals = append(m.refusals, refusal{name: string(id), until: now.Add(time.Minute), why: "does not heal"})
	}
	text := m.formedText(windowFall, Reason{}, &Quorum{ID: 1001})
	if err := validateBytes("Reason", text, maxReasonBytes); err != nil {
		t.Error(err)
	}
	if n := strings.Count(text, "is refused, it does not heal"); n != maxNamed {
		t.Errorf("%d are named, want %d", n, maxNamed)
	}
	if want := fmt.Sprintf("; %d more are refused", all-maxNamed); !strings.HasSuffix(text, want) {
		t.Errorf("ends with %q, want %q", text[len(text)-40:], want)
	}
}
