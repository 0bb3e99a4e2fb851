package story_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

const ms = time.Millisecond

// job is a machine, its clock, and the feed of what becomes of it.
type job struct {
	t       *testing.T
	start   time.Time
	now     time.Time
	m       *quorum.Machine
	s       *story.Story
	numbers map[quorum.ReplicaID]uint64
	step    int64 // committed, in quorum in
	in      int64
}

func newJob(t *testing.T, ids ...quorum.ReplicaID) *job {
	start := time.UnixMilli(1_764_000_000_000)
	j := &job{
		t: t, start: start, now: start, s: story.New(nil, false), numbers: make(map[quorum.ReplicaID]uint64),
		m: quorum.New(start, quorum.DefaultConfig(), quorum.NewLedger("c", "j", 1000)),
	}
	for _, id := range ids {
		j.open(id)
	}
	j.join(quorum.JoinFall, ids...)
	j.after(2 * time.Second)
	j.form()
	return j
}

func (j *job) open(id quorum.ReplicaID) {
	j.t.Helper()
	if err := j.m.Open(j.now, quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry}); err != nil {
		j.t.Fatal(err)
	}
	j.tell()
}

func (j *job) position() quorum.Position {
	if j.step == 0 {
		return quorum.Position{}
	}
	return quorum.Position{Cluster: "c", Step: j.step, QuorumID: j.in}
}

// join is a join of each, which says where it stands and, of a fall, who accuses whom.
func (j *job) join(kind quorum.JoinKind, ids ...quorum.ReplicaID) {
	j.t.Helper()
	for _, id := range ids {
		j.joinWith(quorum.Join{Kind: kind, Member: quorum.Member{ReplicaID: id}})
	}
}

func (j *job) joinWith(join quorum.Join) {
	j.t.Helper()
	id := join.Member.ReplicaID
	j.numbers[id]++
	join.Client, join.Number = quorum.KindSkerry, j.numbers[id]
	if last := j.m.Last(); last != nil {
		for i := range last.Members {
			if last.Members[i].ReplicaID == id {
				join.Member.Position = j.position()
				join.Last = &quorum.LastAnswer{Cluster: "c", QuorumID: last.ID, Round: last.Round, Members: last.Members}
			}
		}
		if join.Kind == quorum.JoinFall && join.Last != nil && join.Fact.Kind == quorum.NoFact {
			join.Fact = quorum.Fact{Kind: quorum.Refused, Step: j.step + 1, QuorumID: last.ID}
		}
	}
	if err := j.m.Join(j.now, join); err != nil {
		j.t.Fatal(err)
	}
	j.tell()
}

// after lets time pass, in which all that have a session beat.
func (j *job) after(d time.Duration, silent ...quorum.ReplicaID) {
	for end := j.now.Add(d); j.now.Before(end); {
		j.now = j.now.Add(min(100*ms, end.Sub(j.now)))
		for id := range j.numbers {
			if len(silent) == 0 || id != silent[0] {
				_ = j.m.Beat(j.now, id, quorum.Beat{Position: j.position()})
			}
		}
		j.m.Advance(j.now)
		j.tell()
	}
}

// commit is a step of all members.
func (j *job) commit(ids ...quorum.ReplicaID) {
	j.step, j.in = j.step+1, j.m.Last().ID
	for _, id := range ids {
		if err := j.m.Beat(j.now, id, quorum.Beat{Position: j.position(), QuorumID: j.m.Last().ID}); err != nil {
			j.t.Fatal(err)
		}
	}
	j.tell()
}

func (j *job) form() {
	j.t.Helper()
	d := j.m.Decide(j.now)
	if !d.Ready {
		j.t.Fatalf("no quorum: %v", d.Reason)
	}
	j.m.Form(j.now, d, quorum.Token{1}, j.now.UnixMilli())
	j.tell()
}

func (j *job) tell() {
	var round int64
	if last := j.m.Last(); last != nil {
		round = last.Round
	}
	for _, e := range j.m.Events() {
		j.s.Happened(j.now.UnixMilli(), story.Last{Round: round}, e)
	}
}

// since is the sentences of what was told after an entry.
func (j *job) since(seq int64) string {
	var lines []string
	for _, e := range j.s.Since(seq, story.Most) {
		lines = append(lines, string(e.Kind)+": "+story.Sentence(e))
	}
	return strings.Join(lines, "\n")
}

func (j *job) wants(seq int64, lines ...string) {
	j.t.Helper()
	if got, want := j.since(seq), strings.Join(lines, "\n"); got != want {
		j.t.Errorf("told\n%s\nwant\n%s", got, want)
	}
}

// A death is told with its culprit and its cost, be it that a survivor joins before the death is
// known: who joined first is not to blame.
func TestADeathIsTold(t *testing.T) {
	t.Parallel()
	j := newJob(t, "a", "b", "c", "d")
	j.wants(0, "formed: first quorum: 4 members")
	j.commit("a", "b", "c", "d")
	seq := j.s.Last()
	j.now = j.now.Add(50 * ms)
	accuse := []quorum.Accusation{{By: "a", Against: "d", QuorumID: j.m.Last().ID, Evidence: "connection reset"}}
	j.joinWith(quorum.Join{Kind: quorum.JoinFall, Member: quorum.Member{ReplicaID: "a"}, Accusations: accuse, Fall: quorum.Fall{Ago: 2 * ms, Void: true}})
	j.now = j.now.Add(2 * ms)
	j.m.Broken(j.now, "d", "EOF", false)
	j.tell()
	j.now = j.now.Add(7 * ms)
	j.join(quorum.JoinFall, "b", "c")
	j.form()
	j.now = j.now.Add(142 * ms)
	j.commit("a", "b", "c")
	j.wants(seq,
		"lost: d died: link cut, seen by a",
		"formed: d died: link cut, seen by a · known after 2.0 ms · 3 members again after 11 ms · step 2 done anew",
		"resumed: training goes on after 153 ms · 153 ms lost")
	change := j.s.Since(seq, 10)[1].Change
	if change.Known != 2*ms || change.Reformed != 11*ms || change.Cause.Kind != quorum.CauseLink || change.Before != 4 {
		t.Errorf("change %+v; want known after 2 ms, reformed after 11 ms, for a cut link, of 4 members", change)
	}
}

// A link that broke between two that live is told as that; a step that failed by itself with its
// own words.
// One member had committed when another died in the exchange of ballots, and was at the next step:
// that is what it does anew.
func TestAnAttemptBehindTheCutStepIsTold(t *testing.T) {
	t.Parallel()
	j := newJob(t, "a", "b", "c")
	j.commit("a", "b", "c")
	j.after(100 * ms)
	seq := j.s.Last()
	j.m.Broken(j.now, "c", "EOF", false)
	j.tell()
	digest := []quorum.Digest{{Valid: true, Sum: 1}}
	b := quorum.Join{Kind: quorum.JoinFall, Member: quorum.Member{ReplicaID: "b"},
		Fact: quorum.Fact{Kind: quorum.Prepared, Step: 2, QuorumID: j.m.Last().ID, Digests: digest}}
	j.joinWith(b)
	j.step, j.in = 2, j.m.Last().ID
	accuse := []quorum.Accusation{{By: "a", Against: "c", QuorumID: j.in, Evidence: "EOF"}}
	j.joinWith(quorum.Join{Kind: quorum.JoinFall, Member: quorum.Member{ReplicaID: "a"}, LastDigests: digest, Accusations: accuse, Fall: quorum.Fall{Void: true}})
	j.now = j.now.Add(3 * ms)
	j.form()
	j.wants(seq, "lost: c died: link cut, seen by a", "formed: c died: link cut, seen by a · 2 members again after 3.0 ms · step 3 done anew")
}

func TestAFallWithoutADeathIsTold(t *testing.T) {
	t.Parallel()
	j := newJob(t, "a", "b", "c")
	j.commit("a", "b", "c")
	seq := j.s.Last()
	accuse := []quorum.Accusation{{By: "a", Against: "b", QuorumID: j.m.Last().ID, Evidence: "connection reset"}}
	j.joinWith(quorum.Join{Kind: quorum.JoinFall, Member: quorum.Member{ReplicaID: "a"}, Accusations: accuse})
	j.join(quorum.JoinFall, "b", "c")
	j.form()
	j.wants(seq, "formed: the link between b and a broke: connection reset · 3 members again")
	seq = j.s.Last()
	j.joinWith(quorum.Join{Kind: quorum.JoinFall, Member: quorum.Member{ReplicaID: "c"}, Fall: quorum.Fall{Why: "loss is NaN", Void: true}})
	j.join(quorum.JoinFall, "a", "b")
	j.form()
	j.wants(seq, "formed: the step of c failed: loss is NaN · 3 members again · step 2 done anew")
}

// The first to join was told of a broken link by the one that saw it break: that is not its step's fault.
func TestABrokenLinkIsToldBySecondHand(t *testing.T) {
	t.Parallel()
	j := newJob(t, "a", "b", "c")
	j.commit("a", "b", "c")
	seq := j.s.Last()
	accuse := []quorum.Accusation{{By: "a", Against: "b", QuorumID: j.m.Last().ID, Evidence: "connection reset"}}
	j.joinWith(quorum.Join{Kind: quorum.JoinFall, Member: quorum.Member{ReplicaID: "c"}, Fall: quorum.Fall{Why: "peer lost: told by a"}})
	j.joinWith(quorum.Join{Kind: quorum.JoinFall, Member: quorum.Member{ReplicaID: "a"}, Accusations: accuse})
	j.join(quorum.JoinFall, "b")
	j.form()
	j.wants(seq, "formed: the link between b and a broke: connection reset · 3 members again")
}

// Who left, was drained or was evicted is never told as lost, and a run whose members all left
// has finished.
func TestOrderlyEndsAreTold(t *testing.T) {
	t.Parallel()
	j := newJob(t, "a", "b", "c", "d")
	j.commit("a", "b", "c", "d")
	seq := j.s.Last()
	j.s.Ask(0, story.Asked{Kind: story.Draining, Replica: "a", By: "alice", From: "10.0.0.7", Reason: "new disk"})
	if err := j.m.Drain(j.now, "a", "new disk"); err != nil {
		t.Fatal(err)
	}
	j.s.Ask(0, story.Asked{Kind: story.Evicted, Replica: "b", By: "bob", Reason: "slow"})
	if err := j.m.Evict(j.now, "b", "slow"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []quorum.ReplicaID{"a", "c", "d"} {
		j.m.Leave(j.now, id, "")
	}
	j.tell()
	j.wants(seq,
		"draining: a was told to drain by alice: new disk", "evicted: b was evicted by bob: slow",
		"drained: a drained: new disk", "left: c left", "left: d left", "finished: finished: all members left in good order, at step 1")
	st := j.m.Status(j.now)
	if st.State != quorum.JobFinished {
		t.Errorf("the job is %s, want finished", st.State)
	}
	want := map[quorum.ReplicaID]quorum.ReplicaState{
		"a": quorum.StateDrained, "b": quorum.StateEvicted, "c": quorum.StateLeft, "d": quorum.StateLeft,
	}
	for _, r := range st.Replicas {
		if r.State != want[r.ReplicaID] || !r.Gone.Kind.Orderly() {
			t.Errorf("%s is %s (%v), want %s", r.ReplicaID, r.State, r.Gone, want[r.ReplicaID])
		}
	}
	j.after(2 * time.Second)
	if got := j.m.Status(j.now).State; got != quorum.JobFinished {
		t.Errorf("the job is %s two seconds later, want finished", got)
	}
}

// A suspicion that was cleared leaves no sign, so the cost of what follows is its own.
func TestAClearedSuspicionCostsNothing(t *testing.T) {
	t.Parallel()
	j := newJob(t, "a", "b")
	j.commit("a", "b")
	j.after(700*ms, "b") // silent, and suspect
	j.after(10 * time.Second)
	seq := j.s.Last()
	j.m.Leave(j.now, "b", "")
	j.now = j.now.Add(5 * ms)
	j.join(quorum.JoinFall, "a")
	j.form()
	j.wants(seq, "left: b left", "formed: b left · 1 member again after 5.0 ms")
}

// An ask that came to the answer that there was is no sign of what ends the quorum an hour later.
func TestAnAskThatCameToNothingCostsNothing(t *testing.T) {
	t.Parallel()
	j := newJob(t, "a", "b")
	j.commit("a", "b")
	j.join(quorum.JoinAsk, "a", "b")
	j.form() // the same answer: none else waits
	j.after(time.Minute)
	j.commit("a", "b")
	seq := j.s.Last()
	j.m.Leave(j.now, "b", "")
	j.now = j.now.Add(5 * ms)
	j.join(quorum.JoinFall, "a")
	j.form()
	j.wants(seq, "left: b left", "formed: b left · 1 member again after 5.0 ms")
}

// An outage goes on until a member commits, over a quorum that committed nothing.
func TestAnOutageOfTwoQuorumsIsOne(t *testing.T) {
	t.Parallel()
	j := newJob(t, "a", "b", "c")
	j.commit("a", "b", "c")
	seq := j.s.Last()
	j.m.Leave(j.now, "c", "")
	j.now = j.now.Add(30 * ms)
	j.join(quorum.JoinFall, "a", "b")
	j.form()
	j.now = j.now.Add(10 * ms)
	j.m.Leave(j.now, "b", "")
	j.now = j.now.Add(20 * ms)
	j.join(quorum.JoinFall, "a")
	j.form()
	j.now = j.now.Add(40 * ms)
	j.commit("a")
	j.wants(seq, "left: c left", "formed: c left · 2 members again after 30 ms", "left: b left",
		"formed: b left · 1 member again after 20 ms", "resumed: training goes on after 100 ms · 100 ms lost")
}

// Another one that leaves while the members come together does not explain a link that broke.
func TestWhoLeavesLaterIsNotTheCulprit(t *testing.T) {
	t.Parallel()
	j := newJob(t, "a", "b", "c")
	j.commit("a", "b", "c")
	seq := j.s.Last()
	accuse := []quorum.Accusation{{By: "a", Against: "b", QuorumID: j.m.Last().ID, Evidence: "connection reset"}}
	j.joinWith(quorum.Join{Kind: quorum.JoinFall, Member: quorum.Member{ReplicaID: "a"}, Accusations: accuse})
	j.m.Leave(j.now, "c", "")
	j.join(quorum.JoinFall, "b")
	j.form()
	j.wants(seq, "left: c left", "formed: c left · 2 members again")
	if got := j.s.Since(seq, 9)[1].Change.Cause; got.Kind != quorum.CauseAccused || got.Replica != "b" {
		t.Errorf("the quorum fell by %v, want the link to b", got)
	}
}

// A newcomer heals, and that is told once.
func TestAHealIsTold(t *testing.T) {
	t.Parallel()
	j := newJob(t, "a", "b")
	j.commit("a", "b")
	j.open("c")
	j.join(quorum.JoinFall, "c")
	seq := j.s.Last()
	j.join(quorum.JoinAsk, "a")
	j.now = j.now.Add(3 * ms)
	j.join(quorum.JoinAsk, "b")
	j.form()
	states := func() (s string) {
		for _, r := range j.m.Status(j.now).Replicas {
			s += fmt.Sprintf("%s %s ", r.ReplicaID, r.State)
		}
		return s
	}
	if got := states(); got != "a live b live c healing " {
		t.Errorf("while c heals: %s", got)
	}
	j.now = j.now.Add(40 * ms)
	j.commit("a", "b", "c")
	j.commit("a", "b", "c")
	j.wants(seq, "formed: c joined · 3 members after 3.0 ms",
		"resumed: training goes on after 43 ms · 43 ms lost", "healed: c healed, takes part, 40ms after the quorum was formed")
	if got := states(); got != "a live b live c live " {
		t.Errorf("after it has healed: %s", got)
	}
}

// What happened is told without its cost, of each who is gone, and of what joined.
func TestWhatIsWithoutItsCost(t *testing.T) {
	t.Parallel()
	left := func(id quorum.ReplicaID) quorum.Cause { return quorum.Cause{Kind: quorum.CauseLeft, Replica: id} }
	for _, c := range []struct {
		told story.Told
		want string
	}{
		{story.Told{Kind: story.Formed}, "a quorum was formed"},
		{story.Told{Kind: story.Formed, Change: &quorum.Change{Members: 3}}, "first quorum: 3 members"},
		{story.Told{Kind: story.Formed, Change: &quorum.Change{Before: 2, Members: 2, Reformed: 3 * ms}}, "2 members again"},
		{story.Told{Kind: story.Formed, Change: &quorum.Change{Before: 3, Members: 2, Joined: []quorum.ReplicaID{"d"}, Reformed: 3 * ms, Known: 2 * ms,
			Gone: []quorum.Cause{left("a"), left("b")}}}, "a left · b left · d joined"},
		{story.Told{Kind: story.Resumed, Change: &quorum.Change{Resumed: 50 * ms, Lost: 20 * ms}}, "training goes on after 50 ms"},
		{story.Told{Kind: story.Kill, Replica: "a", By: "alice", Reason: "a · b"}, "a was killed by alice: a · b"},
	} {
		if got := story.What(c.told); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// What the ledger kept goes on at the next leader, behind a gap.
func TestAFeedGoesOn(t *testing.T) {
	t.Parallel()
	s := story.New(nil, false)
	for i := range 3 {
		s.Ask(int64(i), story.Asked{Kind: story.Kill, Replica: "a", By: "alice", Reason: "why not"})
	}
	kept := story.Keep(nil, s.Unsaved())
	if len(kept) != 3 {
		t.Fatalf("kept %+v", kept)
	}
	s.Saved(3)
	s.Ask(3, story.Asked{Kind: story.Kill, Replica: "b"})
	if got := s.Unsaved(); len(got) != 1 || got[0].Seq != 4 {
		t.Errorf("unsaved %+v, want the fourth", got)
	}
	next := story.New(kept, true)
	next.Led(9, 12, "10.0.0.1:29510")
	got := next.Since(3, 10)
	if story.New(nil, true).Last() != 0 {
		t.Error("a story of which nothing was kept has an entry")
	}
	if len(got) != 1 || got[0].Seq <= 4 || story.Sentence(got[0]) != "10.0.0.1:29510 leads from now on, term 12" {
		t.Errorf("the next leader tells %+v", got)
	}
	if again := story.Keep(kept, append(kept, got...)); len(again) != 4 {
		t.Errorf("kept %d entries, want 4: those that are there are not kept again", len(again))
	}
	if all := next.Since(0, 2); len(all) != 2 || all[1].Seq != 2 {
		t.Errorf("the first two are %+v", all)
	}
}

// What comes from elsewhere is kept within bounds, and what is out of them is left out.
func TestAFeedIsBounded(t *testing.T) {
	t.Parallel()
	s := story.New(nil, false)
	for range story.Most + 500 {
		s.Ask(1, story.Asked{Kind: story.Kill, Replica: "a", Reason: strings.Repeat("ü", 5000)})
	}
	all := s.Since(0, 5000)
	if len(all) != story.Most || all[0].Seq != 501 {
		t.Fatalf("%d entries from %d on, want %d from 501", len(all), all[0].Seq, story.Most)
	}
	if kept := story.Keep(nil, all); len(kept) != story.Most {
		t.Errorf("%d entries are within their bounds, want all", len(kept))
	}
	kept := story.Keep(all, []story.Told{
		{Seq: 1501, Kind: story.Kill, Reason: strings.Repeat("x", 5000)}, {Seq: 1502}, {Seq: -1, Kind: story.Kill},
		{Seq: 1503, Kind: story.Kill, Cause: &quorum.Cause{Witnesses: make([]quorum.ReplicaID, 1000)}},
		{Seq: 1504, Kind: story.Kill},
	})
	if len(kept) != story.Most || kept[story.Most-1].Seq != 1504 || kept[story.Most-2].Seq != 1500 {
		t.Errorf("kept up to %d and %d, want the last alone beside what was there", kept[story.Most-2].Seq, kept[story.Most-1].Seq)
	}
}

// A feed in words, as pages and the command line show it.
func ExampleSentence() {
	s := story.New(nil, false)
	s.Happened(0, story.Last{Round: 1}, quorum.Event{Kind: quorum.EventFormed, QuorumID: 59, Change: &quorum.Change{
		Before: 5, Members: 4, Known: 4 * ms, Reformed: 11 * ms, Settled: quorum.Settlement{Outcome: quorum.Discard, Step: 661}, Redone: true,
		Gone: []quorum.Cause{{Kind: quorum.CauseLink, Replica: "replica-0", Witnesses: []quorum.ReplicaID{"replica-3", "replica-4"}}},
	}})
	for _, told := range s.Since(0, story.Most) {
		fmt.Println(story.Sentence(told))
		fmt.Println(story.What(told))
	}
	kept := story.Keep(nil, s.Unsaved())
	fmt.Println(len(kept), "entry kept")
	// Output:
	// replica-0 died: link cut, seen by replica-3 and replica-4 · known after 4.0 ms · 4 members again after 11 ms · step 661 done anew
	// replica-0 died: link cut, seen by replica-3 and replica-4 · step 661 done anew
	// 1 entry kept
}
