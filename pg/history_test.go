package pg

import (
	"errors"
	"fmt"
	"testing"
)

// TestHistory: a prefix and a quorum id are used once, the id of another cluster is
// another one, and what is refused is not noted.
func TestHistory(t *testing.T) {
	t.Parallel()
	var h History
	for _, c := range []struct {
		prefix, cluster string
		id              int64
		ok              bool
	}{
		{"a", "x", 0, true},
		{"b", "x", 0, false}, // the same epoch
		{"a", "x", 1, false}, // the same prefix
		{"b", "x", 5, true},
		{"c", "x", 4, false}, // an earlier epoch
		{"c", "y", 1, true},  // of another cluster
		{"", "y", 2, true},
		{"", "y", 3, true}, // no store
		{"a", "y", 9, false},
	} {
		err := h.Use(&Config{StoreAddress: c.prefix, Cluster: c.cluster, QuorumID: c.id})
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrUsedPrefix) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if old, ok := h.BeforeLast(); !ok || old != "a" {
		t.Errorf("before last: %q, %v, want a", old, ok)
	}
}

// TestHistoryOfTokens: a prefix that the last token does not open is not for a member to
// delete.
func TestHistoryOfTokens(t *testing.T) {
	t.Parallel()
	var h History
	for i, c := range []struct{ token, old string }{{"a", ""}, {"b", ""}, {"c", ""}, {"c", ""}, {"c", "2"}} {
		if err := h.Use(&Config{StoreAddress: fmt.Sprint(i), QuorumID: int64(i), Token: []byte(c.token)}); err != nil {
			t.Fatal(err)
		}
		if old, ok := h.BeforeLast(); old != c.old || ok != (c.old != "") {
			t.Errorf("after prefix %d: %q, %v, want %q", i, old, ok, c.old)
		}
	}
}

// TestHistoryIsBounded: it holds the last 4,096 prefixes.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	var h History
	prefix := func(i int64) string { return fmt.Sprint("prefix ", i) }
	const n = 3 * maxHistory
	for i := range int64(n) {
		if err := h.Use(&Config{StoreAddress: prefix(i), QuorumID: i}); err != nil {
			t.Fatal(err)
		}
	}
	if len(h.prefixes) != maxHistory {
		t.Errorf("%d prefixes known, want %d", len(h.prefixes), maxHistory)
	}
	if err := h.Use(&Config{StoreAddress: prefix(n - maxHistory), QuorumID: n}); !errors.Is(err, ErrUsedPrefix) {
		t.Errorf("the oldest that is known: %v, want ErrUsedPrefix", err)
	}
	if err := h.Use(&Config{StoreAddress: prefix(0), QuorumID: n}); err != nil {
		t.Errorf("one that is forgotten: %v", err)
	}
}

// TestEpochAfter: a higher id of one cluster is later, an equal one is not; another
// cluster's epoch is, whatever its id.
func TestEpochAfter(t *testing.T) {
	t.Parallel()
	old := Epoch{Cluster: "x", QuorumID: 5}
	for e, want := range map[Epoch]bool{
		{Cluster: "x", QuorumID: 4}: false,
		{Cluster: "x", QuorumID: 5}: false,
		{Cluster: "x", QuorumID: 6}: true,
		{Cluster: "y", QuorumID: 4}: true,
		{Cluster: "y", QuorumID: 5}: true,
	} {
		if got := e.After(old); got != want {
			t.Errorf("%v after %v: %v, want %v", e, old, got, want)
		}
	}
}
