package quorum

import (
	"testing"
	"time"
)

// A job is in use until all its replicas are lost or evicted, as time alone makes them.
func TestInUse(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_764_000_000, 0)
	m := New(now, DefaultConfig(), NewLedger("c", "j", 0))
	inUse := func(at time.Time) bool { return m.Status(at).State.InUse() }
	if inUse(now) {
		t.Error("a job without replicas is in use")
	}
	for _, id := range []ReplicaID{"a", "b"} {
		if err := m.Open(now, Hello{ReplicaID: id, Client: KindSkerry}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Evict(now, "a", ""); err != nil {
		t.Fatal(err)
	}
	if !inUse(now) {
		t.Error("a job with a live replica is not in use")
	}
	if inUse(now.Add(DefaultConfig().HeartbeatTimeout + time.Minute)) {
		t.Error("a job whose replicas are evicted and silent is in use")
	}
}
