package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/quorum"
)

func sampleMember(id quorum.ReplicaID) quorum.Member {
	return quorum.Member{
		ReplicaID: id, Address: "http://[::1]:4711", StoreAddress: "[::1]:4712", GroupWorldSize: 2,
		Position:   quorum.Position{Cluster: "c1", Step: 7, QuorumID: 3},
		ShrinkOnly: true, InitSync: true, Sync: true, FixedWorldSize: 3, CommitFailures: 1,
		Data: "{\"a\":\"b\\n\"}\n",
	}
}

func sampleQuorum() quorum.Quorum {
	return quorum.Quorum{
		Cluster: "c1", Job: "digits", ID: 9, Round: 2,
		Members:      []quorum.Member{sampleMember("a:1"), sampleMember("b:2"), sampleMember("c:3")},
		Participants: []quorum.ReplicaID{"a:1", "c:3"},
		Settlement: quorum.Settlement{Outcome: quorum.Forward, Step: 8, QuorumID: 3,
			Digests: []quorum.Digest{{Valid: true, Sum: 0xdeadbeef}, {}}},
		Token: quorum.Token{1, 2, 3}, Reason: "b:2 was lost", CreatedMs: 1_700_000_000_000,
	}
}

func sampleJoin() quorum.Join {
	return quorum.Join{
		Member: sampleMember("a:1"), Client: quorum.KindSkerry, Kind: quorum.JoinAsk, Number: 12,
		LastDigests: []quorum.Digest{{Valid: true, Sum: 1}},
		Fact: quorum.Fact{Kind: quorum.Prepared, Step: 8, QuorumID: 3,
			Digests: []quorum.Digest{{Valid: true, Sum: 2}}},
		Last: &quorum.LastAnswer{Cluster: "c1", QuorumID: 3, Round: 1, Members: []quorum.Member{sampleMember("a:1")}},
		Accusations: []quorum.Accusation{
			{By: "a:1", Against: "b:2", QuorumID: 3, Evidence: "connection reset"},
			{By: "a:1", Against: "c:3", QuorumID: 3, Evidence: "no answer", Unreachable: true}},
	}
}

// overTheWire marshals m and unmarshals the bytes into a fresh message, as gRPC does.
func overTheWire[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	fresh := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(data, fresh); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	return fresh.(M)
}

// A list is converted into memory of its size, not by growing: a quorum may have
// thousands of members.
func TestListsDoNotGrow(t *testing.T) {
	q := sampleQuorum()
	q.Members = make([]quorum.Member, 1000)
	if p := QuorumToProto(q); len(p.GetMembers()) != 1000 || cap(p.GetMembers()) != 1000 {
		t.Errorf("1000 members became %d in room for %d", len(p.GetMembers()), cap(p.GetMembers()))
	}
	q.Members = nil
	if p := QuorumToProto(q); p.GetMembers() != nil {
		t.Errorf("no members became %v, want nil", p.GetMembers())
	}
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	same := func(name string, want any, got any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s changed on its way (-want +got):\n%s", name, d)
		}
	}
	q := sampleQuorum()
	gotQ, err := QuorumFromProto(overTheWire(t, QuorumToProto(q)))
	same("quorum", q, gotQ, err)

	j := sampleJoin()
	gotJ, err := JoinFromProto(overTheWire(t, JoinToProto(j)))
	same("join", j, gotJ, err)

	h := Hello{Job: "digits", Address: "http://h:1", StoreAddress: "h:2", GroupWorldSize: 4, TotalSteps: 600,
		Hello: quorum.Hello{ReplicaID: "a:1", Client: quorum.KindSkerry, Position: j.Member.Position, Last: j.Last,
			Accusations: j.Accusations}}
	gotH, err := HelloFromProto(overTheWire(t, HelloToProto(h)))
	same("hello", h, gotH, err)

	b := quorum.Beat{Position: j.Member.Position, QuorumID: 3, Ballots: 5, Phase: quorum.PhaseDraining, Progress: 1 << 60, Waits: true}
	gotB, err := BeatFromProto(overTheWire(t, BeatToProto(b)))
	same("beat", b, gotB, err)

	w := Welcome{Cluster: "c1", Servers: []string{"h:29510"},
		Timing: Timing{BeatInterval: 100 * time.Millisecond, HeartbeatTimeout: time.Second, JoinTimeout: 10 * time.Second}}
	gotW, err := WelcomeFromProto(overTheWire(t, WelcomeToProto(w)))
	same("welcome", w, gotW, err)
	gotT, err := TimingFromProto(overTheWire(t, TimingToProto(w.Timing)))
	same("timing", w.Timing, gotT, err)

	r := quorum.RankReport{GroupRank: 1, Kind: quorum.JoinFall, Position: j.Member.Position, HaveQuorumID: 3, HaveRound: 1,
		Fact: j.Fact, LastDigest: quorum.Digest{Valid: true, Sum: 7}, CheckpointMetadata: "http://h:3/checkpoint/",
		ShrinkOnly: true, InitSync: true, Sync: true, FixedWorldSize: 2, CommitFailures: 4,
		Accusations: j.Accusations, Withdraw: true, Differs: true}
	gotR, err := RankReportFromProto(overTheWire(t, RankReportToProto(r)))
	same("rank report", r, gotR, err)

	v := quorum.RankVote{GroupRank: 1, QuorumID: 3, Round: 1, Step: 8, Vote: quorum.VotePrepared,
		ChangeWanted: true, Broken: true, Last: true, Digest: quorum.Digest{Valid: true, Sum: 9}}
	gotV, err := VoteFromProto(overTheWire(t, VoteToProto(v)))
	same("vote", v, gotV, err)

	tr := quorum.TallyResult{Outcome: quorum.TallyPrepared, ChangeWanted: true, Stands: true, Digests: j.LastDigests}
	gotTR, err := TallyResultFromProto(overTheWire(t, TallyResultToProto(tr)))
	same("tally result", tr, gotTR, err)
}

func TestNoticesRoundTrip(t *testing.T) {
	t.Parallel()
	for _, n := range []quorum.Notice{
		{Kind: quorum.NoticeFallen, QuorumID: 3, About: "b:2", Fact: sampleJoin().Fact},
		{Kind: quorum.NoticeLost, QuorumID: 3, About: "b:2", Reason: "two witnesses", Cause: quorum.CauseLink},
		{Kind: quorum.NoticeWanted, QuorumID: 3, Reason: "c:3 waits"},
		{Kind: quorum.NoticeProbe, Number: 77, QuorumID: 3},
		{Kind: quorum.NoticeDrain, Reason: "maintenance"},
		{Kind: quorum.NoticeStay, Reason: "wrong host"},
		{Kind: quorum.NoticeEvict, Reason: "stuck"},
	} {
		got, ok, err := NoticeFromProto(overTheWire(t, NoticeToProto(n)))
		if err != nil || !ok {
			t.Errorf("notice %+v: ok %v, error %v", n, ok, err)
		} else if d := cmp.Diff(n, got); d != "" {
			t.Errorf("notice changed (-want +got):\n%s", d)
		}
		if n.Kind == quorum.NoticeProbe {
			if NoticeToRank(n) != nil {
				t.Error("a probe is passed on to ranks")
			}
			continue
		}
		got, ok, err = NoticeFromRank(overTheWire(t, NoticeToRank(n)))
		if err != nil || !ok {
			t.Errorf("rank notice %+v: ok %v, error %v", n, ok, err)
		} else if d := cmp.Diff(n, got); d != "" {
			t.Errorf("rank notice changed (-want +got):\n%s", d)
		}
	}
	later := NoticeToProto(quorum.Notice{Kind: quorum.NoticeLost, About: "b:2", Reason: "fell into a hole"})
	later.GetLost().Cause = 200
	if n, _, err := NoticeFromProto(later); err != nil || n.Cause != quorum.CauseUnknown || n.About != "b:2" {
		t.Errorf("a cause of a newer version: %+v, %v", n, err)
	}
	down := NoticeToProto(quorum.Notice{Kind: quorum.NoticeRefused, Number: 5, Reason: "a:1 beats"})
	if got := RefusalError(down.GetRefused()); !errors.Is(got, quorum.ErrNameInUse) || down.GetRefused().GetNumber() != 5 {
		t.Errorf("a refusal became %v", down)
	}
	if _, ok, err := NoticeFromProto(&skerrypb.Down{}); ok || err != nil {
		t.Errorf("an empty message is a notice: ok %v, error %v", ok, err)
	}
}

func TestTorchftRoundTrip(t *testing.T) {
	t.Parallel()
	m := quorum.Member{ReplicaID: "a:1", Address: "http://h:1", StoreAddress: "h:2", GroupWorldSize: 2,
		Position: quorum.Position{Step: 5}, ShrinkOnly: true, CommitFailures: 3, Data: "{}"}
	got, err := MemberFromTorchft(overTheWire(t, MemberToTorchft(m)))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(m, got); d != "" {
		t.Errorf("member changed (-want +got):\n%s", d)
	}
	q := overTheWire(t, QuorumToTorchft(quorum.Quorum{ID: 4, Members: []quorum.Member{m}, CreatedMs: 1_700_000_000_123}))
	if q.GetQuorumId() != 4 || q.GetCreated().AsTime().UnixMilli() != 1_700_000_000_123 || len(q.GetParticipants()) != 1 ||
		!proto.Equal(q.GetParticipants()[0], MemberToTorchft(m)) {
		t.Errorf("quorum became %v", q)
	}
	if got, err := MemberFromTorchft(&torchftpb.QuorumMember{ReplicaId: "a"}); err != nil || got.GroupWorldSize != 1 {
		t.Errorf("a bare member: world size %d, error %v; want 1, nil", got.GroupWorldSize, err)
	}
}

// Fields of a newer torchft come through unread.
func TestTorchftExtraIsPassedOn(t *testing.T) {
	t.Parallel()
	m := &torchftpb.QuorumMember{ReplicaId: "a"}
	field := protowire.AppendString(protowire.AppendTag(nil, 9, protowire.BytesType), "handle")
	AddExtra(m, field)
	extra, err := ExtraFromTorchft(overTheWire(t, m))
	if err != nil || !bytes.Equal(extra, field) {
		t.Errorf("extra %x, error %v; want %x", extra, err, field)
	}
	AddExtra(m, protowire.AppendBytes(protowire.AppendTag(nil, 9, protowire.BytesType), make([]byte, MaxExtraBytes)))
	if _, err := ExtraFromTorchft(m); !errors.Is(err, quorum.ErrInvalid) {
		t.Errorf("too much of it: %v, want quorum.ErrInvalid", err)
	}
}

func TestBoundsAreNamed(t *testing.T) {
	t.Parallel()
	join := func(change func(*skerrypb.Join)) error {
		m := JoinToProto(sampleJoin())
		change(m)
		_, err := JoinFromProto(m)
		return err
	}
	answer := func(change func(*skerrypb.Quorum)) error {
		m := &skerrypb.Answer{Quorum: QuorumToProto(sampleQuorum())}
		change(m.Quorum)
		_, err := AnswerFromProto(m)
		return err
	}
	long := strings.Repeat("x", MaxReplicaIDBytes+1)
	for _, tc := range []struct {
		name string
		err  error
		want []string // parts of the message
	}{
		{"no member", join(func(m *skerrypb.Join) { m.Member = nil }), []string{"join.member = nothing"}},
		{"no id", join(func(m *skerrypb.Join) { m.Member.ReplicaId = "" }), []string{`join.member.replica_id = ""`, "1 to 256"}},
		{"long id", join(func(m *skerrypb.Join) { m.Member.ReplicaId = long }), []string{"join.member.replica_id", "256", "not 257"}},
		{"control character", join(func(m *skerrypb.Join) { m.Member.ReplicaId = "a\x1b[2J" }), []string{`"a\x1b[2J"`, "no control"}},
		{"not UTF-8", join(func(m *skerrypb.Join) { m.Member.Address = "a\xff" }), []string{"join.member.address", "UTF-8"}},
		{"negative step", join(func(m *skerrypb.Join) { m.Member.Position.Step = -1 }), []string{"join.member.position.step = -1, want 0 to"}},
		{"huge quorum id", join(func(m *skerrypb.Join) { m.Fact.QuorumId = 1<<53 + 1 }), []string{"join.fact.quorum_id = 9007199254740993"}},
		{"unknown kind", join(func(m *skerrypb.Join) { m.Kind = 17 }), []string{"join.kind = 17, want 0 to 2"}},
		{"unknown fact", join(func(m *skerrypb.Join) { m.Fact.Kind = -3 }), []string{"join.fact.kind = -3"}},
		{"no ranks", join(func(m *skerrypb.Join) { m.Member.GroupWorldSize = 0 }), []string{"group_world_size = 0, want 1 to"}},
		{"much data", join(func(m *skerrypb.Join) { m.Member.Data = strings.Repeat("x", MaxDataBytes+1) }), []string{"join.member.data", "16384"}},
		{"many digests", join(func(m *skerrypb.Join) { m.LastDigests = make([]*skerrypb.Digest, MaxGroupWorldSize+1) }),
			[]string{"join.last_digests = 4097 elements, want at most 4096"}},
		{"many accusations", join(func(m *skerrypb.Join) { m.Accusations = make([]*skerrypb.Accusation, MaxAccusations+1) }),
			[]string{"join.accusations = 65 elements"}},
		{"nil accusation", join(func(m *skerrypb.Join) { m.Accusations = []*skerrypb.Accusation{nil} }), []string{"join.accusations[0].by"}},
		{"unsorted", answer(func(q *skerrypb.Quorum) { q.Members[0], q.Members[1] = q.Members[1], q.Members[0] }),
			[]string{`answer.quorum.members[1].replica_id = "a:1"`, "sorted"}},
		{"stranger participates", answer(func(q *skerrypb.Quorum) { q.Participants[1] = "x" }), []string{`participants[1].id = "x"`}},
		{"participant twice", answer(func(q *skerrypb.Quorum) { q.Participants[1] = "a:1" }), []string{"participants[1].id"}},
		{"many ranks of torchft's", torchftRanks(5_000), []string{"requester.world_size = 5000, want 1 to 4096"}},
		{"a million ranks of torchft's", torchftRanks(1_000_000), []string{"requester.world_size = 1000000, want 1 to 4096"}},
		{"more than there are", torchftRanks(1 << 63), []string{"requester.world_size = 9223372036854775808, want at most"}},
		{"short token", answer(func(q *skerrypb.Quorum) { q.Token = q.Token[:3] }), []string{"token = 3 bytes, want 16"}},
		{"bad job", answer(func(q *skerrypb.Quorum) { q.Job = "../x" }), []string{`job = "../x"`}},
	} {
		if tc.err == nil {
			t.Errorf("%s: accepted", tc.name)
			continue
		}
		for _, part := range tc.want {
			if !strings.Contains(tc.err.Error(), part) {
				t.Errorf("%s: error %q does not say %q", tc.name, tc.err, part)
			}
		}
		if !errors.Is(tc.err, quorum.ErrInvalid) {
			t.Errorf("%s: error %v is not quorum.ErrInvalid", tc.name, tc.err)
		}
	}
}

// torchftRanks is the error of a torchft member with so many ranks.
func torchftRanks(n uint64) error {
	_, err := MemberFromTorchft(&torchftpb.QuorumMember{ReplicaId: "a", WorldSize: n})
	return err
}

func TestTextIsCutToWhatIsAccepted(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "plain", "a\nb\x00", "\xff\xfe", strings.Repeat("é", MaxTextBytes), strings.Repeat("x", MaxTextBytes-1) + "é"} {
		var c check
		if c.text("text", Text(s), MaxTextBytes); c.failed() {
			t.Errorf("Text(%.20q…) is refused: %v", s, c.result())
		}
	}
	if got := Text("plain – text"); got != "plain – text" {
		t.Errorf("Text changed a good text into %q", got)
	}
}

func TestRefusalsFindTheirSentinel(t *testing.T) {
	t.Parallel()
	for _, r := range refusals() {
		err := fmt.Errorf("join a:1: %w", r.sentinel)
		got := RefusalError(overTheWire(t, RefusalOf(4, err)))
		if !errors.Is(got, r.sentinel) || got.Final != r.final || got.Code != r.name {
			t.Errorf("%s: refusal became %+v", r.name, got)
		}
		s := StatusError(err)
		if status.Code(s) != r.code {
			t.Errorf("%s: status %v, want %v", r.name, status.Code(s), r.code)
		}
		if back := FromStatus(s); !errors.Is(back, r.sentinel) {
			t.Errorf("%s: status became %v", r.name, back)
		}
	}
	if got := RefusalError(&skerrypb.Refused{Code: "from the future", Text: "no"}); got.Unwrap() != nil {
		t.Errorf("an unknown code matches %v", got.Unwrap())
	}
	if got := status.Code(StatusError(context.DeadlineExceeded)); got != codes.DeadlineExceeded {
		t.Errorf("deadline became %v", got)
	}
	if err := FromStatus(StatusError(context.Canceled)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancellation became %v", err)
	}
	if FromStatus(nil) != nil || StatusError(nil) != nil {
		t.Error("no error became an error")
	}
}

func TestJobs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": DefaultJob, "digits": "digits", "A-1_b.c": "A-1_b.c"} {
		if got, err := CheckJob(name); err != nil || got != want {
			t.Errorf("CheckJob(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"a/b": "letters", "a b": "letters", "é": "letters", " ": `job = " "`, "\u202e": `job = "\u202e"`,
		strings.Repeat("x", MaxJobBytes+1): "not 129 bytes", strings.Repeat("é", 1<<19): "not 1048576 bytes",
	} {
		if got, err := CheckJob(name); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 500 {
			t.Errorf("CheckJob(%.40q) = %.40q, %v; want an error with %s", name, got, err, want)
		}
	}
	if job, ok := JobPrefix("digits/replica_0:1"); !ok || job != "digits" {
		t.Errorf("JobPrefix = %q, %v", job, ok)
	}
	for _, id := range []quorum.ReplicaID{"a", "/a", "a b/c"} {
		if job, ok := JobPrefix(id); ok {
			t.Errorf("JobPrefix(%q) = %q, want none", id, job)
		}
	}
}

func TestConfigChange(t *testing.T) {
	t.Parallel()
	base := quorum.Config{MinReplicas: 1, JoinTimeout: time.Second, HeartbeatTimeout: 2 * time.Second}
	c, err := ConfigChangeFromProto(overTheWire(t, &skerrypb.ConfigureRequest{
		MinReplicas: proto.Uint32(3), HeartbeatTimeoutMs: proto.Uint32(5000)}))
	if err != nil {
		t.Fatal(err)
	}
	want := base
	want.MinReplicas, want.HeartbeatTimeout = 3, 5*time.Second
	if d := cmp.Diff(want, c.Apply(base)); d != "" {
		t.Errorf("config (-want +got):\n%s", d)
	}
	for _, m := range []*skerrypb.ConfigureRequest{
		{MinReplicas: proto.Uint32(0)}, {JoinTimeoutMs: proto.Uint32(0)}, {MaxReplicas: proto.Uint32(MaxMembers + 1)}} {
		if _, err := ConfigChangeFromProto(m); !errors.Is(err, quorum.ErrInvalid) {
			t.Errorf("configure %v: error %v, want quorum.ErrInvalid", m, err)
		}
	}
}

// A client that does not know the difference between waiting and hanging is taken
// to wait.
func TestBeatOfAnOldClientWaits(t *testing.T) {
	t.Parallel()
	old := BeatToProto(quorum.Beat{Progress: 3})
	if got, err := BeatFromProto(overTheWire(t, old)); err != nil || got.Waits {
		t.Errorf("beat %+v, %v; want one that does not wait", got, err)
	}
	old.Waits = nil
	if got, err := BeatFromProto(overTheWire(t, old)); err != nil || !got.Waits {
		t.Errorf("beat %+v, %v; want one that waits", got, err)
	}
}

func memberFromProto(m *skerrypb.Member) (quorum.Member, error) {
	var c check
	r := c.member(m)
	return r, c.result()
}

// A torn member has no position.
func TestTornMember(t *testing.T) {
	m := sampleMember("a:1")
	m.Position, m.Torn = quorum.Position{}, true
	p := MemberToProto(m)
	if got, err := memberFromProto(overTheWire(t, p)); err != nil || got != m {
		t.Errorf("%+v, %v; want %+v", got, err, m)
	}
	p.Position = PositionToProto(quorum.Position{Cluster: "c1", Step: 7, QuorumID: 3})
	if got, err := memberFromProto(p); err == nil {
		t.Errorf("%+v, want the position refused", got)
	}
	m = sampleMember("a:1")
	m.Differs = true
	if got, err := memberFromProto(overTheWire(t, MemberToProto(m))); err != nil || got != m {
		t.Errorf("%+v, %v; want %+v", got, err, m)
	}
}
