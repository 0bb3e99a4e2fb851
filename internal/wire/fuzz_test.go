package wire

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/quorum"
)

func FuzzDecodeBallot(f *testing.F) {
	f.Add(EncodeBallot(quorum.Ballot{}))
	f.Add(EncodeBallot(sampleBallot()))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, MaxBallotBytes+1))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := DecodeBallot(data)
		if err != nil {
			return
		}
		if len(b.Position.Cluster) > MaxClusterBytes || b.QuorumID < 0 || b.QuorumID > MaxNumber || b.Round > MaxNumber {
			t.Errorf("accepted out of bounds: %+v", b)
		}
		if got := EncodeBallot(b); !bytes.Equal(got, data) {
			t.Errorf("not canonical: %x became %x", data, got)
		}
	})
}

func sampleBallot() quorum.Ballot {
	return quorum.Ballot{QuorumID: 9, Round: 2, Position: quorum.Position{Cluster: "c1", Step: 7, QuorumID: 3},
		OK: true, Reduced: true, Healed: true, Unhealed: true, ChangeWanted: true,
		State: quorum.Digest{Valid: true, Sum: 0xdeadbeef}, Whole: true}
}

// A manager from before states were compared reads the layout that it wrote: version
// 1, 39 bytes and the cluster, six flags; the seventh is of those who ask for it.
func TestBallotLayoutIsThatOfTheFirst(t *testing.T) {
	t.Parallel()
	want := []byte{
		1, ballotOK | ballotReduced | ballotHasState, 0, 0, 0, 7,
		0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 3, 1, 'c',
	}
	b := quorum.Ballot{QuorumID: 9, Round: 2, Position: quorum.Position{Cluster: "c", Step: 5, QuorumID: 3}, OK: true, Reduced: true,
		State: quorum.Digest{Valid: true, Sum: 7}}
	if got := EncodeBallot(b); !bytes.Equal(got, want) || int(ballotFlags) != 0x7f {
		t.Errorf("%v, flags %#x; want %v, 0x7f", got, ballotFlags, want)
	}
}

func TestBallotRoundTrip(t *testing.T) {
	t.Parallel()
	for _, b := range []quorum.Ballot{{}, sampleBallot(), {OK: true}, {Healed: true, State: quorum.Digest{Sum: 3}},
		{State: quorum.Digest{Valid: true, Sum: 4}}} {
		data := EncodeBallot(b)
		if len(data) > MaxBallotBytes {
			t.Errorf("ballot of %d bytes, want at most %d", len(data), MaxBallotBytes)
		}
		got, err := DecodeBallot(data)
		if err != nil {
			t.Errorf("decode %+v: %v", b, err)
		} else if d := cmp.Diff(b, got); d != "" {
			t.Errorf("ballot changed (-want +got):\n%s", d)
		}
		for n := range data {
			if _, err := DecodeBallot(data[:n]); err == nil {
				t.Errorf("accepted the first %d of %d bytes", n, len(data))
			}
		}
		future := bytes.Clone(data)
		future[0] = ballotVersion + 1
		if _, err := DecodeBallot(future); err == nil {
			t.Error("accepted another version")
		}
	}
}

// FuzzSession feeds bytes to all that a session decodes.
func FuzzSession(f *testing.F) {
	q, part := viewed("r4"), sampleJoin()
	part.Last = quorum.NewLastAnswer(&q)
	for _, m := range []*skerrypb.Up{
		{Message: &skerrypb.Up_Join{Join: JoinToProto(part)}},
		{Message: &skerrypb.Up_Join{Join: JoinToProto(sampleJoin())}},
		{Message: &skerrypb.Up_Hello{Hello: HelloToProto(Hello{GroupWorldSize: 1, Hello: quorum.Hello{ReplicaID: "a"}})}},
		{Message: &skerrypb.Up_Beat{Beat: BeatToProto(quorum.Beat{Phase: quorum.PhaseTraining})}},
		{Message: &skerrypb.Up_Accuse{Accuse: AccusationToProto(quorum.Accusation{By: "a", Against: "b"})}},
		{Message: &skerrypb.Up_Link{Link: LinkReportToProto(quorum.LinkReport{To: "b", Holds: true})}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m skerrypb.Up
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		if j, err := JoinFromProto(m.GetJoin()); err == nil {
			assertJoin(t, j)
		}
		if h, err := HelloFromProto(m.GetHello()); err == nil {
			assertMember(t, quorum.Member{ReplicaID: h.ReplicaID, Address: h.Address, StoreAddress: h.StoreAddress,
				GroupWorldSize: h.GroupWorldSize, Position: h.Position})
		}
		if b, err := BeatFromProto(m.GetBeat()); err == nil && (b.Phase > quorum.PhaseDraining || b.Ballots > MaxNumber) {
			t.Errorf("accepted beat %+v", b)
		}
		if a, err := AccusationFromProto(m.GetAccuse()); err == nil && (a.By == "" || a.Against == "" || len(a.Evidence) > MaxTextBytes) {
			t.Errorf("accepted accusation %+v", a)
		}
		if r, err := LinkReportFromProto("a", m.GetLink()); err == nil && (r.By != "a" || r.To == "" || len(r.Evidence) > MaxEvidenceBytes) {
			t.Errorf("accepted link report %+v", r)
		}
	})
}

// FuzzAnswer feeds bytes to what a client decodes.
func FuzzAnswer(f *testing.F) {
	data, err := proto.Marshal(&skerrypb.Down{Message: &skerrypb.Down_Answer{Answer: &skerrypb.Answer{Number: 1, Quorum: QuorumToProto(sampleQuorum())}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var m skerrypb.Down
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		if q, err := AnswerFromProto(m.GetAnswer()); err == nil {
			if len(q.Members) > MaxMembers || len(q.Participants) > len(q.Members) {
				t.Errorf("accepted %d members, %d participants", len(q.Members), len(q.Participants))
			}
			for _, member := range q.Members {
				assertMember(t, member)
			}
		}
		if n, ok, err := NoticeFromProto(&m); ok && err == nil && len(n.Reason) > MaxTextBytes {
			t.Errorf("accepted notice %+v", n)
		}
	})
}

// FuzzTorchft feeds bytes to what torchft's clients send.
func FuzzTorchft(f *testing.F) {
	data, err := proto.Marshal(&torchftpb.LighthouseQuorumRequest{Requester: MemberToTorchft(sampleMember("a:1"))})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var m torchftpb.LighthouseQuorumRequest
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		if member, err := MemberFromTorchft(m.GetRequester()); err == nil {
			assertMember(t, member)
		}
	})
}

func assertJoin(t *testing.T, j quorum.Join) {
	t.Helper()
	assertMember(t, j.Member)
	if j.Kind > quorum.JoinAsk || j.Fact.Kind > quorum.Refused || j.Fact.Step < 0 || j.Fact.QuorumID > MaxNumber ||
		len(j.LastDigests) > MaxGroupWorldSize || len(j.Accusations) > MaxAccusations {
		t.Errorf("accepted join %+v", j)
	}
	if j.Last != nil {
		for _, m := range j.Last.Members {
			assertMember(t, m)
		}
		if p := j.Last.Part; p != nil {
			assertMember(t, p.Self)
			if p.WorldSize < 1 || p.WorldSize > MaxMembers || p.Self.Seat.Rank < 0 || p.Self.Seat.Rank >= MaxMembers {
				t.Errorf("accepted part %+v", p)
			}
		}
	}
}

func assertMember(t *testing.T, m quorum.Member) {
	t.Helper()
	if m.ReplicaID == "" || len(m.ReplicaID) > MaxReplicaIDBytes || len(m.Address) > MaxAddressBytes ||
		m.GroupWorldSize < 1 || m.GroupWorldSize > MaxGroupWorldSize || len(m.Data) > MaxTorchftDataBytes ||
		m.Position.Step < 0 || m.Position.Step > MaxNumber || m.Position.QuorumID < 0 || m.Position.QuorumID > MaxNumber ||
		m.CommitFailures < 0 || m.FixedWorldSize > MaxMembers {
		t.Errorf("accepted member %+v", m)
	}
}
