package quorum_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// BenchmarkEverybodyJoins is a whole first quorum: n sessions open, n joins come,
// each followed by a decision, as a shell does that does not gather them.
func BenchmarkEverybodyJoins(b *testing.B) {
	for _, n := range []int{16, 256, 4096} {
		b.Run(fmt.Sprintf("replicas=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			ids := replicaIDs(n)
			for b.Loop() {
				m, now := everybodyJoins(b, ids)
				now = now.Add(quorum.DefaultConfig().HeartbeatTimeout - time.Millisecond)
				for _, id := range ids {
					if err := m.Beat(now, id, quorum.Beat{}); err != nil {
						b.Fatal(err)
					}
				}
				now = now.Add(time.Millisecond)
				d := m.Decide(now)
				if !d.Ready {
					b.Fatal(d.Reason)
				}
				m.Form(now, d, quorum.Token{}, 0)
			}
		})
	}
}

// BenchmarkBeat is one beat while a quorum stands, and what a shell does after it.
func BenchmarkBeat(b *testing.B) {
	for _, n := range []int{16, 4096} {
		b.Run(fmt.Sprintf("replicas=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			ids := replicaIDs(n)
			m, now := everybodyJoins(b, ids)
			i := 0
			for b.Loop() {
				now = now.Add(100 * time.Millisecond / time.Duration(n))
				if err := m.Beat(now, ids[i%n], quorum.Beat{Progress: uint64(i)}); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

func replicaIDs(n int) []quorum.ReplicaID {
	ids := make([]quorum.ReplicaID, n)
	for i := range ids {
		ids[i] = quorum.ReplicaID(fmt.Sprintf("replica%04d:00000000-0000-0000-0000-%012d", i, i))
	}
	return ids
}

func everybodyJoins(b *testing.B, ids []quorum.ReplicaID) (*quorum.Machine, time.Time) {
	b.Helper()
	now := time.Unix(1_700_000_000, 0)
	m := quorum.New(now, quorum.DefaultConfig(), quorum.NewLedger("x", "default", 1000))
	for _, id := range ids {
		if err := m.Open(now, quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry}); err != nil {
			b.Fatal(err)
		}
	}
	for _, id := range ids {
		if err := m.Join(now, skerryJoin(id, 1)); err != nil {
			b.Fatal(err)
		}
		m.Decide(now)
	}
	return m, now
}
