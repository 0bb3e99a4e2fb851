package many

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// listed is a quorum of n members, all whole.
func listed(n int) *quorum.Quorum {
	q := &quorum.Quorum{ID: 7, Round: 1, Job: "j", Cluster: "sim"}
	for i := range n {
		id := quorum.ReplicaID(fmt.Sprintf("replica%05d:%08d-0000-4000-8000-%012d", i, 0, i))
		q.Members = append(q.Members, quorum.Member{
			ReplicaID: id, Address: address, StoreAddress: storeAddress, GroupWorldSize: 1,
			Position: quorum.Position{Cluster: "sim", Step: 900, QuorumID: 3},
		})
		q.Participants = append(q.Participants, id)
	}
	return q
}

// told is q as one member is told it: the list, or its view.
func told(q *quorum.Quorum, view bool) quorum.Quorum {
	if view {
		return quorum.NewViewer(q).For(q.Members[len(q.Members)/2].ReplicaID)
	}
	return *q
}

// perKiB reports what a run took for each KiB of a message.
func perKiB(b *testing.B, bytes int) {
	b.ReportMetric(float64(bytes), "bytes")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/(float64(bytes)/1024), "µs/KiB")
}

// both runs a benchmark with lists of 1,000 members and with views.
func both(b *testing.B, run func(b *testing.B, q quorum.Quorum)) {
	for _, view := range []bool{false, true} {
		name := "list"
		if view {
			name = "view"
		}
		b.Run(name, func(b *testing.B) { run(b, told(listed(1000), view)) })
	}
}

// BenchmarkJoin is what a lighthouse decodes of a join that restates the last answer: Costs.In.
func BenchmarkJoin(b *testing.B) {
	both(b, func(b *testing.B, q quorum.Quorum) {
		self := listed(1000).Members[500]
		text, err := proto.Marshal(wire.JoinToProto(quorum.Join{
			Member: self, Client: quorum.KindSkerry, Kind: quorum.JoinFall, Number: 3, Last: quorum.NewLastAnswer(&q),
		}))
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			var p skerrypb.Join
			if err := proto.Unmarshal(text, &p); err != nil {
				b.Fatal(err)
			}
			if _, err := wire.JoinFromProto(&p); err != nil {
				b.Fatal(err)
			}
		}
		perKiB(b, len(text))
	})
}

// BenchmarkAnswer is what a replica decodes of an answer, and does with it: Costs.Take.
func BenchmarkAnswer(b *testing.B) {
	both(b, func(b *testing.B, q quorum.Quorum) {
		text, err := proto.Marshal(&skerrypb.Answer{Number: 1, Quorum: wire.QuorumToProto(q)})
		if err != nil {
			b.Fatal(err)
		}
		id := listed(1000).Members[500].ReplicaID
		for b.Loop() {
			var p skerrypb.Answer
			if err := proto.Unmarshal(text, &p); err != nil {
				b.Fatal(err)
			}
			got, err := wire.AnswerFromProto(&p)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := quorum.Assign(&got, id, 0); err != nil {
				b.Fatal(err)
			}
		}
		perKiB(b, len(text))
	})
}

// BenchmarkDecide is what a decision costs for each replica, when all have joined: Costs.Decide.
func BenchmarkDecide(b *testing.B) {
	const n = 1000
	w := newWorld(Options{Replicas: n}, DefaultCosts())
	m := quorum.New(w.clock(), quorum.DefaultConfig(), w.ledger.Clone())
	for _, self := range listed(n).Members {
		self.Position = quorum.Position{}
		if err := m.Open(w.clock(), quorum.Hello{ReplicaID: self.ReplicaID, Client: quorum.KindSkerry}); err != nil {
			b.Fatal(err)
		}
		if err := m.Join(w.clock(), quorum.Join{Member: self, Client: quorum.KindSkerry, Kind: quorum.JoinFall, Number: 1}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		m.Decide(w.clock())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/replica")
}
