package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// viewed is a quorum of which some heal, as one of its members is told it.
func viewed(id quorum.ReplicaID) quorum.Quorum {
	q := quorum.Quorum{Cluster: "c", Job: "j", ID: 9, Round: 1, Reason: "all joined"}
	for i := range 9 {
		m := quorum.Member{
			ReplicaID: quorum.ReplicaID(fmt.Sprintf("r%d", i)), Address: "http://h:1", StoreAddress: "s:1", GroupWorldSize: 2,
			Position: quorum.Position{Cluster: "c", Step: int64(4 + i%2), QuorumID: 8},
		}
		q.Members = append(q.Members, m)
		if i%3 > 0 {
			q.Participants = append(q.Participants, m.ReplicaID)
		}
	}
	return quorum.NewViewer(&q).For(id)
}

func TestViewRoundTrip(t *testing.T) {
	t.Parallel()
	for i := range 9 {
		q := viewed(quorum.ReplicaID(fmt.Sprintf("r%d", i)))
		got, err := QuorumFromProto(QuorumToProto(q))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(q.View, got.View); d != "" {
			t.Errorf("view changed (-want +got):\n%s", d)
		}
	}
}

// What a member restates of a view, in a hello and a join, arrives as it was.
func TestPartRoundTrip(t *testing.T) {
	t.Parallel()
	for i := range 9 {
		q := viewed(quorum.ReplicaID(fmt.Sprintf("r%d", i)))
		want := quorum.NewLastAnswer(&q)
		if want.Part == nil || want.Part.Self.Seat.Rank != i || want.Part.WorldSize != 9 || want.Part.Heal != (i%2 == 0) {
			t.Fatalf("part %+v", want.Part)
		}
		j := sampleJoin()
		j.Last = want
		got, err := JoinFromProto(overTheWire(t, JoinToProto(j)))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got.Last); d != "" {
			t.Errorf("part changed (-want +got):\n%s", d)
		}
	}
	q := viewed("r4")
	for want, spoil := range map[string]func(p *skerrypb.AnswerPart){
		"last.part.world_size": func(p *skerrypb.AnswerPart) { p.WorldSize = MaxMembers + 1 },
		"last.part.self":       func(p *skerrypb.AnswerPart) { p.Self = nil },
		"last.part.seat":       func(p *skerrypb.AnswerPart) { p.Seat.Count = 2 },
	} {
		j := sampleJoin()
		j.Last = quorum.NewLastAnswer(&q)
		p := JoinToProto(j)
		spoil(p.Last.Part)
		if _, err := JoinFromProto(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %s", err, want)
		}
	}
}

func TestViewBoundsAreNamed(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(q *skerrypb.Quorum){
		"view.rank":         func(q *skerrypb.Quorum) { q.View.Rank = 9 },
		"view.max_rank":     func(q *skerrypb.Quorum) { q.View.MaxRank = new(uint32(9)) },
		"view.world_size":   func(q *skerrypb.Quorum) { q.View.WorldSize = 1 << 30 },
		"view.ranks":        func(q *skerrypb.Quorum) { q.View.Ranks = q.View.Ranks[:1] },
		"view.participants": func(q *skerrypb.Quorum) { q.View.Participants = q.View.Participants[1:] },
		"first": func(q *skerrypb.Quorum) {
			q.View.Participants[1] = proto.CloneOf(q.View.Participants[0])
		},
		"view.seats":          func(q *skerrypb.Quorum) { q.View.Seats[0].Count++ },
		"view.seats[0].first": func(q *skerrypb.Quorum) { q.View.Seats[0].First = MaxMembers },
		"view.seats[0].count": func(q *skerrypb.Quorum) { q.View.Seats[0].Count = 0 },
		"view.self":           func(q *skerrypb.Quorum) { q.View.Self = nil },
		"members": func(q *skerrypb.Quorum) {
			q.Members = []*skerrypb.Member{q.View.Self}
		},
	} {
		q := QuorumToProto(viewed("r4"))
		spoil(q)
		if _, err := QuorumFromProto(q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %s", err, want)
		}
	}
}

// FuzzQuorum feeds bytes to what decodes an answer: what is accepted can be
// assigned without a panic.
func FuzzQuorum(f *testing.F) {
	for _, id := range []quorum.ReplicaID{"r0", "r1", "r4"} {
		data, err := proto.Marshal(QuorumToProto(viewed(id)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := new(skerrypb.Quorum)
		if proto.Unmarshal(data, m) != nil {
			return
		}
		q, err := QuorumFromProto(m)
		if err != nil || q.View == nil {
			return
		}
		if a, err := quorum.Assign(&q, q.View.Self.ReplicaID, 0); err != nil || len(a.ReplicaIDs) != q.Size() {
			t.Errorf("accepted, and then %v", err)
		}
		if got := len(q.ParticipantRanks()); got != q.View.Divisor {
			t.Errorf("%d participants, divisor %d", got, q.View.Divisor)
		}
	})
}
