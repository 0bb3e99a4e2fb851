package quorum_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// scene is a machine with a clock for tests of single calls; longer stories are
// transcripts.
type scene struct {
	*quorum.Machine
	t   *testing.T
	now time.Time
}

func newScene(t *testing.T, c quorum.Config) *scene {
	t.Helper()
	now := time.Unix(1_700_000_000, 0)
	return &scene{quorum.New(now, c, quorum.NewLedger("x", "default", 1000)), t, now}
}

func skerryJoin(id quorum.ReplicaID, number uint64) quorum.Join {
	return quorum.Join{
		Member: quorum.Member{ReplicaID: id}, Client: quorum.KindSkerry, Kind: quorum.JoinFall, Number: number,
	}
}

func (s *scene) open(ids ...quorum.ReplicaID) {
	s.t.Helper()
	for _, id := range ids {
		if err := s.Open(s.now, quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry}); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *scene) join(j quorum.Join) {
	s.t.Helper()
	if err := s.Join(s.now, j); err != nil {
		s.t.Fatal(err)
	}
}

// pass lets time pass in beats of the named.
func (s *scene) pass(d time.Duration, ids ...quorum.ReplicaID) {
	s.t.Helper()
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(100 * time.Millisecond)
		for _, id := range ids {
			if err := s.Beat(s.now, id, quorum.Beat{}); err != nil {
				s.t.Fatal(err)
			}
		}
		s.Advance(s.now)
	}
}

func (s *scene) form() quorum.Quorum {
	s.t.Helper()
	d := s.Decide(s.now)
	if !d.Ready {
		s.t.Fatalf("not ready: %v", d.Reason)
	}
	return s.Form(s.now, d, quorum.Token{1}, 1)
}

func standingScene(t *testing.T, ids ...quorum.ReplicaID) (*scene, quorum.Quorum) {
	t.Helper()
	s := newScene(t, quorum.DefaultConfig())
	s.open(ids...)
	for _, id := range ids {
		s.join(skerryJoin(id, 1))
	}
	s.pass(time.Second, ids...)
	return s, s.form()
}

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
			t.Errorf("panic %q, want one with %q", got, want)
		}
	}()
	f()
}

func TestCallersThatBreakTheContractPanic(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "a")
	mustPanic(t, "time went back", func() { s.Advance(s.now.Add(-1)) })
	mustPanic(t, "time went back", func() { s.Decide(s.now.Add(-1)) })
	mustPanic(t, "not ready", func() { s.Form(s.now, s.Decide(s.now), quorum.Token{}, 0) })
	mustPanic(t, "MinReplicas", func() { quorum.New(s.now, quorum.Config{}, quorum.Ledger{}) })
	mustPanic(t, "want 1 to", func() { quorum.NewTally(0) })

	j := skerryJoin("a", 2)
	j.Last = &quorum.LastAnswer{QuorumID: q.ID, Round: q.Round, Members: q.Members}
	s.join(j)
	d := s.Decide(s.now)
	s.Form(s.now, d, quorum.Token{}, 0)
	mustPanic(t, "fenced", func() { s.Form(s.now, d, quorum.Token{}, 0) }) // another Form overtook it
}

// Between Decide and Form raft writes, and inputs come in. A member that is lost
// meanwhile is in the quorum that is already in the ledger, and ends it at once.
func TestInputsBetweenDecideAndForm(t *testing.T) {
	t.Parallel()
	s, first := standingScene(t, "a", "b", "c")
	last := &quorum.LastAnswer{QuorumID: first.ID, Round: first.Round, Members: first.Members}
	for _, id := range []quorum.ReplicaID{"a", "b", "c"} {
		j := skerryJoin(id, 2)
		j.Last = last
		s.join(j)
	}
	d := s.Decide(s.now)
	if !d.Ready || !d.Changed {
		t.Fatalf("decision %+v, want a changed one", d)
	}
	s.Broken(s.now, "c", "EOF", false)
	if err := s.Accuse(s.now, quorum.Accusation{By: "a", Against: "c", QuorumID: first.ID}); err != nil {
		t.Fatal(err)
	}
	again := skerryJoin("b", 3) // b has news: its join is not the one that is answered
	again.Last = last
	s.join(again)
	s.Notices()
	q := s.Form(s.now, d, quorum.Token{7}, 42)
	if len(q.Members) != 3 || q.Token != (quorum.Token{7}) || q.CreatedMs != 42 {
		t.Fatalf("formed %+v, want the quorum that was decided", q)
	}
	var lost bool
	for _, n := range s.Notices() {
		lost = lost || n.Kind == quorum.NoticeLost && n.About == "c" && n.QuorumID == q.ID
	}
	if !lost {
		t.Error("nobody was told that c of the new quorum is lost")
	}
	if st := s.Status(s.now); st.Stands {
		t.Error("the new quorum stands, though c is lost")
	}
}

// The machine's ledger is what the FSM gets from the same command.
func TestCommandAndFormAgree(t *testing.T) {
	t.Parallel()
	s := newScene(t, quorum.DefaultConfig())
	s.open("a", "b")
	s.join(skerryJoin("a", 1))
	s.join(skerryJoin("b", 1))
	s.pass(time.Second, "a", "b")
	fsm := quorum.NewLedger("x", "default", 1000)
	d := s.Decide(s.now)
	if err := fsm.ApplyFormed(d.Command(0, quorum.Token{3}, 99)); err != nil {
		t.Fatal(err)
	}
	s.Form(s.now, d, quorum.Token{3}, 99)
	if got, want := fmt.Sprintf("%+v", *s.Ledger().Last), fmt.Sprintf("%+v", *fsm.Last); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s, _ := standingScene(t, "a", "b")
	torchft := quorum.Join{Member: quorum.Member{ReplicaID: "t"}, Client: quorum.KindTorchft}
	long := quorum.ReplicaID(strings.Repeat("x", quorum.MaxIDBytes+1))
	with := func(change func(*quorum.Join)) quorum.Join {
		j := skerryJoin("n", 1)
		change(&j)
		return j
	}
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"torchft's client in a job of ours": {s.Join(s.now, torchft), quorum.ErrKind},
		"a heartbeat in a job of ours":      {s.Heartbeat(s.now, "t"), quorum.ErrKind},
		"a lower number":                    {s.Join(s.now, skerryJoin("a", 0)), quorum.ErrStaleJoin},
		"a long id":                         {s.Join(s.now, skerryJoin(long, 1)), quorum.ErrInvalid},
		"no id":                             {s.Join(s.now, skerryJoin("", 1)), quorum.ErrInvalid},
		"a step kind":                       {s.Join(s.now, with(func(j *quorum.Join) { j.Kind = quorum.JoinStep })), quorum.ErrInvalid},
		"a huge step": {s.Join(s.now, with(func(j *quorum.Join) { j.Member.Position.Step = quorum.MaxStep + 1 })),
			quorum.ErrInvalid},
		"a negative quorum id": {s.Join(s.now, with(func(j *quorum.Join) { j.Fact.QuorumID = -1 })), quorum.ErrInvalid},
		"too much data": {s.Join(s.now, with(func(j *quorum.Join) {
			j.Member.Data = strings.Repeat("x", quorum.MaxDataBytes+1)
		})), quorum.ErrInvalid},
		"too many digests": {s.Join(s.now, with(func(j *quorum.Join) {
			j.LastDigests = make([]quorum.Digest, quorum.MaxGroupWorldSize+1)
		})), quorum.ErrInvalid},
		"too many accusations": {s.Join(s.now, with(func(j *quorum.Join) {
			j.Accusations = make([]quorum.Accusation, quorum.MaxAccusations+1)
		})), quorum.ErrInvalid},
		"a last answer out of order": {s.Join(s.now, with(func(j *quorum.Join) {
			j.Last = &quorum.LastAnswer{QuorumID: 1, Members: []quorum.Member{{ReplicaID: "b"}, {ReplicaID: "a"}}}
		})), quorum.ErrInvalid},
		"an accusation of oneself": {s.Accuse(s.now, quorum.Accusation{By: "a", Against: "a"}), quorum.ErrInvalid},
		"an accusation of a stranger": {s.Accuse(s.now, quorum.Accusation{By: "a", Against: "z", QuorumID: 1001}),
			quorum.ErrInvalid},
		"a beat without a session": {s.Beat(s.now, "z", quorum.Beat{}), quorum.ErrNoSession},
		"a drain of a stranger":    {s.Drain(s.now, "z", ""), quorum.ErrUnknown},
		"an evict of a stranger":   {s.Evict(s.now, "z", ""), quorum.ErrUnknown},
		"rules that cannot be":     {s.Configure(s.now, quorum.Config{}), quorum.ErrInvalid},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if err := s.Evict(s.now, "b", "operator"); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(s.now, quorum.Hello{ReplicaID: "b", Client: quorum.KindSkerry}); !errors.Is(err, quorum.ErrEvicted) {
		t.Errorf("the evicted: %v, want ErrEvicted", err)
	}
}

// An accusation about a quorum that is over is old news, and dropped.
func TestOldAccusationsAreDropped(t *testing.T) {
	t.Parallel()
	s, q := standingScene(t, "a", "b")
	if err := s.Accuse(s.now, quorum.Accusation{By: "a", Against: "b", QuorumID: q.ID - 1}); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Status(s.now).Replicas {
		if r.State != quorum.StateLive {
			t.Errorf("%s is %s, want live", r.ReplicaID, r.State)
		}
	}
}

// A detector that was descheduled doubts itself before it accuses.
func TestDoubt(t *testing.T) {
	t.Parallel()
	for _, doubts := range []bool{false, true} {
		s, _ := standingScene(t, "a")      // two that are silent together would make it doubt by itself
		s.now = s.now.Add(3 * time.Second) // this process was stopped
		if doubts {
			s.Doubt(s.now, 3*time.Second)
		}
		s.Advance(s.now)
		if got := s.Status(s.now).Stands; got != doubts {
			t.Errorf("doubts %t: the quorum stands %t", doubts, got)
		}
	}
}

// A lighthouse that was stopped for longer than the join timeout waits for those
// whose joins lie in its socket, in an open window and in a first one.
func TestDoubtKeepsTheWindowOpen(t *testing.T) {
	t.Parallel()
	stopped := 12 * time.Second
	s, q := standingScene(t, "a", "b", "c")
	for _, id := range []quorum.ReplicaID{"a", "b"} {
		j := skerryJoin(id, 2)
		j.Last = &quorum.LastAnswer{QuorumID: q.ID, Round: q.Round, Members: q.Members}
		s.join(j)
	}
	first := newScene(t, quorum.DefaultConfig())
	first.open("a", "b", "c")
	first.join(skerryJoin("a", 1))
	first.join(skerryJoin("b", 1))
	for name, s := range map[string]*scene{"fallen": s, "first": first} {
		s.now = s.now.Add(stopped)
		s.Doubt(s.now, stopped)
		if d := s.Decide(s.now); d.Ready {
			t.Errorf("%s: ready without c (%v), want that its join is waited for", name, d.Reason)
		}
		s.pass(9*time.Second, "a", "b", "c")
		if d := s.Decide(s.now); d.Ready {
			t.Errorf("%s: ready without c before the join timeout is over (%v)", name, d.Reason)
		}
		s.pass(2*time.Second, "a", "b", "c")
		if d := s.Decide(s.now); !d.Ready {
			t.Errorf("%s: not ready after the join timeout: %v", name, d.Reason)
		}
	}
}

// A job has no more replicas than it may: one more is refused, by its number and the
// bound, whether it beats, joins or opens a session, and let in once another is lost.
// Those of the last quorum come again whatever came meanwhile.
func TestReplicasAreLimited(t *testing.T) {
	t.Parallel()
	const most = 3
	c := quorum.DefaultConfig()
	s := newScene(t, c)
	s.Limit(most)
	for n := range most {
		if err := s.Heartbeat(s.now, quorum.ReplicaID(fmt.Sprint("r", n))); err != nil {
			t.Fatal(err)
		}
	}
	want := `replica "late" would be number 4 of its job, want at most 3`
	err := s.Heartbeat(s.now, "late")
	if !errors.Is(err, quorum.ErrFull) || !strings.Contains(err.Error(), want) {
		t.Errorf("a beat: %v, want %s", err, want)
	}
	err = s.Join(s.now, quorum.Join{Member: quorum.Member{ReplicaID: "late", GroupWorldSize: 1}, Client: quorum.KindTorchft, Number: 1})
	if !errors.Is(err, quorum.ErrFull) || !strings.Contains(err.Error(), want) {
		t.Errorf("a join: %v, want %s", err, want)
	}
	s.now = s.now.Add(c.HeartbeatTimeout)
	if err := s.Heartbeat(s.now, "late"); err != nil {
		t.Errorf("once the others are lost there is room: %v", err)
	}
	for n := range most { // who was lost takes a place again, and there are two
		err := s.Heartbeat(s.now, quorum.ReplicaID(fmt.Sprint("r", n)))
		if full := errors.Is(err, quorum.ErrFull); full != (n == most-1) {
			t.Errorf("r%d again: %v", n, err)
		}
	}
}

// What is gone is forgotten, and what waits is bounded.
func TestMachineIsBounded(t *testing.T) {
	t.Parallel()
	c := quorum.DefaultConfig()
	s := newScene(t, c)
	var err error
	n := 0
	for ; err == nil && n < 4*quorum.MaxKnown; n++ {
		err = s.Heartbeat(s.now, quorum.ReplicaID(fmt.Sprint("r", n)))
	}
	if !errors.Is(err, quorum.ErrFull) || n != quorum.MaxKnown+1 {
		t.Fatalf("after %d replicas: %v, want ErrFull after %d", n, err, quorum.MaxKnown)
	}
	s.now = s.now.Add(c.HeartbeatTimeout)
	if err := s.Heartbeat(s.now, "late"); err != nil {
		t.Errorf("once the others are lost there is room: %v", err)
	}
	s.now = s.now.Add(quorum.ForgetAfter)
	s.Advance(s.now)
	s.now = s.now.Add(quorum.ForgetAfter)
	s.Advance(s.now)
	if got := len(s.Status(s.now).Replicas); got != 0 {
		t.Errorf("%d replicas are remembered, want none", got)
	}
}

// The first join fixes the kind of client. What the other kind had said until
// then is forgotten, and holds nobody up.
func TestFirstJoinFixesTheKind(t *testing.T) {
	t.Parallel()
	theirs := quorum.Join{Member: quorum.Member{ReplicaID: "t"}, Client: quorum.KindTorchft}
	s := newScene(t, quorum.DefaultConfig())
	s.open("ours")
	if err := s.Heartbeat(s.now, "t"); err != nil {
		t.Errorf("a heartbeat before any join: %v", err)
	}
	s.join(theirs)
	if q := s.form(); len(q.Members) != 1 || s.Ledger().Client != quorum.KindTorchft {
		t.Errorf("formed %v of kind %v, want t alone of torchft's kind", q.Members, s.Ledger().Client)
	}
	if err := s.Open(s.now, quorum.Hello{ReplicaID: "ours", Client: quorum.KindSkerry}); !errors.Is(err, quorum.ErrKind) {
		t.Errorf("a session of ours: %v, want ErrKind", err)
	}

	s = newScene(t, quorum.DefaultConfig())
	if err := s.Heartbeat(s.now, "t"); err != nil {
		t.Fatal(err)
	}
	s.open("a")
	s.join(skerryJoin("a", 1))
	if err := s.Join(s.now, theirs); !errors.Is(err, quorum.ErrKind) {
		t.Errorf("torchft's join while ours waits: %v, want ErrKind", err)
	}
	s.pass(time.Second, "a")
	if q := s.form(); len(q.Members) != 1 {
		t.Errorf("formed %v, want a alone", q.Members)
	}
}
