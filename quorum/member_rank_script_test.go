package quorum_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/skerry-ft/skerry/quorum"
)

// rankCommands are those of testdata/members that are about one rank of replica a:
//
//	rank [ranks=2] [min=2] [fixed=1] [every]     a rank that has just started
//	begin, issue, fail, close, share             its attempt
//	need, ask, unanswered, again, drain          its need of another quorum
//	answer Q.ROUND [of=(a,b)] [at=(4@6,4@6)] [count=(a,b)] [forward=11] [void=N]
//	ready                                        the group is configured
//	heal 5@7
//	hear fallen|lost|wanted|sibling Q [committed=11]
//	fall Q
//	ballot [unhealed]                            it gives its ballot
//	judged yes|no|prepared|behind [sum=11] [broken]
//	without, missing                             a vote without a ballot
//	tally commit|abort|prepared|behind [stands] [wanted]
//	abandon, give-up
//	catch-up N                                   its siblings are at attempt N
//	says                                         its report
func (s *memberScript) rankCommands() map[string]func(*datadriven.TestData) string {
	r := &s.rank1
	did := func(f func()) func(*datadriven.TestData) string {
		return func(*datadriven.TestData) string { f(); return s.state() }
	}
	asked := func(f func() bool) func(*datadriven.TestData) string {
		return func(*datadriven.TestData) string { return fmt.Sprintf("%t\n", f()) + s.state() }
	}
	return map[string]func(*datadriven.TestData) string{
		"rank": s.newRank, "answer": s.answer, "hear": s.hear, "ballot": s.ballot, "judged": s.judged, "tally": s.tally,
		"begin": did(r.Begin), "issue": did(r.Issue), "fail": did(r.Fail), "close": did(r.Close), "again": did(r.HearAgain),
		"share": did(func() { r.ShareOut() }),
		"need":  asked(r.Need), "ask": asked(r.Ask), "unanswered": asked(r.Unanswered),
		"drain": asked(func() bool { return r.Drain("told to") }),
		"ready": asked(func() bool {
			ok := r.Configured() && r.Fulfil()
			if ok {
				r.Started()
			}
			return ok
		}),
		"fall": func(d *datadriven.TestData) string { return asked(func() bool { return r.Fall(s.number(d, 0)) })(d) },
		"heal": func(d *datadriven.TestData) string {
			r.Healed(position(d.CmdArgs[0].Key), 40, digestOf("9"))
			return s.state()
		},
		"without": func(*datadriven.TestData) string {
			v, none := r.WithoutBallot()
			return fmt.Sprintf("%t: %s", none, voteText(v))
		},
		"missing": func(*datadriven.TestData) string { return voteText(r.Missing()) },
		"abandon": func(*datadriven.TestData) string { return fmt.Sprintf("%+v\n", r.Abandon()) + s.state() },
		"give-up": func(*datadriven.TestData) string {
			forward, settled := r.GiveUp()
			return fmt.Sprintf("settled=%t forward=%t\n", settled, forward) + s.state()
		},
		"catch-up": func(d *datadriven.TestData) string {
			r.CatchUp(uint64(s.number(d, 0)))
			return s.state()
		},
		"says": func(*datadriven.TestData) string { return s.says() },
	}
}

func (s *memberScript) number(d *datadriven.TestData, i int) (n int64) {
	if _, err := fmt.Sscan(d.CmdArgs[i].Key, &n); err != nil {
		d.Fatalf(s.t, "%v", err)
	}
	return n
}

func position(text string) quorum.Position {
	p := quorum.Position{Cluster: "x"}
	_, _ = fmt.Sscanf(text, "%d@%d", &p.Step, &p.QuorumID) // else the first
	if p.Step == 0 {
		p.Cluster = ""
	}
	return p
}

func (s *memberScript) newRank(d *datadriven.TestData) string {
	cfg := quorum.RankConfig{GroupWorldSize: 1, MinReplicas: 1, NoInitSync: true, EveryStep: d.HasArg("every")}
	d.MaybeScanArgs(s.t, "ranks", &cfg.GroupWorldSize)
	d.MaybeScanArgs(s.t, "min", &cfg.MinReplicas)
	d.MaybeScanArgs(s.t, "fixed", &cfg.FixedWorldSize)
	s.rank1 = quorum.NewRank(cfg)
	return s.state()
}

// state is one line of what a rank is in.
func (s *memberScript) state() string {
	r := &s.rank1
	text := "at " + r.Position().String()
	if q := r.Quorum(); q != nil {
		text += fmt.Sprintf(", in %d.%d", q.ID, q.Round)
	}
	for _, f := range []struct {
		what string
		is   bool
	}{
		{"stands", r.Standing()}, {"usable", r.Usable()}, {"behind", r.Behind()}, {"prepared", r.Prepared()},
		{"asks", r.Asks()}, {"falls", r.Needs() && !r.Asks()}, {"due", r.Due()},
	} {
		if f.is {
			text += ", " + f.what
		}
	}
	if r.Wanted() != "" {
		text += ", wants a change: " + r.Wanted()
	}
	return text + "\n"
}

func (s *memberScript) answer(d *datadriven.TestData) string {
	q := &quorum.Quorum{Cluster: "x"}
	if _, err := fmt.Sscanf(d.CmdArgs[0].Key, "%d.%d", &q.ID, &q.Round); err != nil {
		d.Fatalf(s.t, "%v", err)
	}
	ids, at := []string{"a", "b"}, []string{}
	d.MaybeScanArgs(s.t, "of", &ids)
	d.MaybeScanArgs(s.t, "at", &at)
	for i, id := range ids {
		m := quorum.Member{ReplicaID: quorum.ReplicaID(id)}
		if i < len(at) {
			m.Position = position(at[i])
		}
		q.Members = append(q.Members, m)
	}
	d.MaybeScanArgs(s.t, "count", &ids)
	for _, id := range ids {
		q.Participants = append(q.Participants, quorum.ReplicaID(id))
	}
	if d.HasArg("forward") {
		var sum string
		d.ScanArgs(s.t, "forward", &sum)
		q.Settlement = quorum.Settlement{Outcome: quorum.Forward, Step: 5, QuorumID: 7, Digests: []quorum.Digest{digestOf(sum)}}
	}
	void := 0
	d.MaybeScanArgs(s.t, "void", &void)
	t, err := s.rank1.Take("a", q, uint64(void))
	out := ""
	if t.Settled.Known {
		out = fmt.Sprintf("settled, forward=%t\n", t.Settled.Forward)
	}
	for what, is := range map[string]bool{"void\n": t.Void, "wrong\n": t.Wrong, "it fell from that\n": t.Fell, "other shares\n": t.Shared != nil} {
		if is {
			out += what
		}
	}
	for _, n := range t.Early {
		out += fmt.Sprintf("now: %v %d\n", n.Kind, n.QuorumID)
	}
	if err != nil {
		out += err.Error() + "\n"
	}
	return out + s.state()
}

func (s *memberScript) hear(d *datadriven.TestData) string {
	n := quorum.Notice{QuorumID: s.number(d, 1), Reason: "a reason", Kind: map[string]quorum.NoticeKind{
		"fallen": quorum.NoticeFallen, "lost": quorum.NoticeLost, "wanted": quorum.NoticeWanted, "sibling": quorum.NoticeSibling,
	}[d.CmdArgs[0].Key]}
	var sum string
	if d.MaybeScanArgs(s.t, "committed", &sum) {
		n.Fact = quorum.Fact{Kind: quorum.Committed, Step: s.rank1.Position().Step + 1, QuorumID: n.QuorumID, Digests: []quorum.Digest{digestOf(sum)}}
	}
	means := [...]string{"nothing", "early", "the quorum falls", "a change is wanted", "more"}[s.rank1.Hear(n)]
	return means + "\n" + s.state()
}

func (s *memberScript) ballot(d *datadriven.TestData) string {
	b := s.rank1.Ballot(d.HasArg("unhealed"))
	s.rank1.Seal(b)
	return fmt.Sprintf("ok=%t reduced=%t healed=%t unhealed=%t wants=%t\n", b.OK, b.Reduced, b.Healed, b.Unhealed, b.ChangeWanted) +
		s.state()
}

func (s *memberScript) judged(d *datadriven.TestData) string {
	var sum string
	d.MaybeScanArgs(s.t, "sum", &sum)
	s.vote1, _ = s.rank1.Judged(quorum.Verdict{Vote: votes[d.CmdArgs[0].Key]}, digestOf(sum), d.HasArg("broken"))
	s.rank1.Voted()
	return voteText(s.vote1) + s.state()
}

func voteText(v quorum.RankVote) string {
	return fmt.Sprintf("votes %v on step %d of %d.%d, attempt %d, void=%t broken=%t\n",
		v.Vote, v.Step, v.QuorumID, v.Round, v.Attempt, v.Void, v.Broken)
}

func (s *memberScript) tally(d *datadriven.TestData) string {
	t := quorum.TallyResult{Stands: d.HasArg("stands"), ChangeWanted: d.HasArg("wanted"), Outcome: map[string]quorum.TallyOutcome{
		"commit": quorum.TallyCommit, "abort": quorum.TallyAbort, "prepared": quorum.TallyPrepared, "behind": quorum.TallyBehind,
	}[d.CmdArgs[0].Key]}
	did := s.rank1.Resolve(t, s.vote1)
	if did.Awaits {
		return "waits for the settlement\n" + s.state()
	}
	e := s.rank1.End(did)
	return fmt.Sprintf("step %d, commit=%t asks=%t stands=%t\n", e.Step, did.Commit, e.Asks, did.Stands) + s.state()
}

func (s *memberScript) says() string {
	r := s.rank1.Report(quorum.ReportOptions{Sync: s.rank1.Syncs()})
	return fmt.Sprintf("%v at %v, %v, %d failures, attempt %d void=%t, sync=%t, has %d.%d\n", r.Kind, r.Position, r.Fact,
		r.CommitFailures, r.Attempt, r.Void, r.Sync, r.HaveQuorumID, r.HaveRound)
}

// TestRankCopies pins what the explorer relies on: a copy of a rank that goes on
// leaves the other one as it was.
func TestRankCopies(t *testing.T) {
	t.Parallel()
	r, q := aloneRank(t)
	before := *r
	r.Accuse(quorum.Accusation{By: "a", Against: "b", QuorumID: q.ID})
	r.Hear(quorum.Notice{Kind: quorum.NoticeLost, QuorumID: q.ID + 1})
	r.Fall(q.ID)
	if len(before.Accusations()) != 0 || !before.Standing() || strings.Contains(fmt.Sprint(before), "lost") {
		t.Errorf("the copy has changed: %+v", before)
	}
}
