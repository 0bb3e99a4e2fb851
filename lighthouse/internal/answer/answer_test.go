package answer

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/quorum"
)

// formed is a quorum of n members.
func formed(n int) quorum.Quorum {
	q := quorum.Quorum{Cluster: "c", Job: "j", ID: 7, Round: 1, Reason: "all joined", CreatedMs: 1}
	for i := range n {
		m := quorum.Member{
			ReplicaID: quorum.ReplicaID(fmt.Sprintf("r%05d", i)), Address: "http://h:1", StoreAddress: fmt.Sprintf("s%d:1", i), GroupWorldSize: 1,
		}
		q.Members, q.Participants = append(q.Members, m), append(q.Participants, m.ReplicaID)
	}
	return q
}

// What is encoded once reads as if it were encoded for each.
func TestAnswerIsEncodedOnce(t *testing.T) {
	t.Parallel()
	q := formed(3)
	extra := &torchftpb.QuorumMember{ReconfigureHandles: []string{"handle"}}
	a := New(q, func(id quorum.ReplicaID) []byte {
		if id != "r00001" {
			return nil
		}
		return encoded(extra).ProtoReflect().GetUnknown()
	})
	var first *skerrypb.Quorum
	for i, m := range q.Members {
		down := a.Down(quorum.Answered{ReplicaID: m.ReplicaID, Number: uint64(i)})()
		if sent := down.GetAnswer().GetQuorum(); first == nil {
			first = sent
		} else if sent != first {
			t.Error("encoded again for another member")
		}
		got := testkit.OverWire(t, down, new(skerrypb.Down)).GetAnswer()
		read, err := wire.AnswerFromProto(got)
		if err != nil || got.GetNumber() != uint64(i) {
			t.Fatalf("answer %d: %v", got.GetNumber(), err)
		}
		if d := cmp.Diff(q, read); d != "" {
			t.Errorf("answer changed (-want +got):\n%s", d)
		}
	}
	once := a.Torchft()
	theirs := testkit.OverWire(t, once, new(torchftpb.Quorum))
	if again := a.Torchft(); again != once || len(theirs.GetParticipants()) != 3 || theirs.GetQuorumId() != 7 ||
		!cmp.Equal(theirs.GetParticipants()[1].GetReconfigureHandles(), []string{"handle"}) {
		t.Errorf("torchft's answer: %v", theirs)
	}
}

// Members of thousands are told their own part, in a few hundred bytes.
func TestLargeQuorumIsToldInParts(t *testing.T) {
	t.Parallel()
	q := formed(quorum.MaxListed + 1)
	a := New(q, nil)
	for _, i := range []int{0, 1, quorum.MaxListed} {
		id := q.Members[i].ReplicaID
		down := testkit.OverWire(t, a.Down(quorum.Answered{ReplicaID: id, Number: 4})(), new(skerrypb.Down))
		if size := proto.Size(down); size > 1_000 {
			t.Errorf("a part of %d bytes, want at most 1,000", size)
		}
		read, err := wire.AnswerFromProto(down.GetAnswer())
		if err != nil {
			t.Fatal(err)
		}
		got, err := quorum.Assign(&read, id, 0)
		if err != nil || got.ReplicaRank != i || got.ReplicaWorldSize != quorum.MaxListed+1 || got.Divisor != quorum.MaxListed+1 || got.StoreAddress != "s0:1" {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
	}
}
