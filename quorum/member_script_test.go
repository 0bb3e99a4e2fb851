package quorum_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/skerry-ft/skerry/quorum"
)

// The transcripts of testdata/members are scenes inside one replica: what one rank
// claims, and what the replica makes of its ranks' votes and reports.
//
//	ranks N                                      a replica of N ranks
//	vote R attempt=1 yes|no|prepared|behind [void] [broken] [wants] [last] [quorum=7] [step=5]
//	result attempt=1
//	awaits R attempt=1                           does rank R vote on it before it reports?
//	report R [kind=ask] [at=4@6] [fact=prepared:11|refused|gave-up] [shrink] [sync] [fixed=2] [differs]
//	join                                         what the replica makes of the reports
//	claim promise|no|behind|refuse|give-up|tell=11|judged=prepared:11|settle=5@7|fact
func TestMemberTranscripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/members", func(t *testing.T, path string) {
		s := &memberScript{t: t}
		datadriven.RunTest(t, path, s.run)
	})
}

// memberScript is a replica that a transcript tells what to do. Its step under way
// is step 5 of quorum 7, for ranks at 4@6.
type memberScript struct {
	t       *testing.T
	polls   *quorum.Polls
	reports []quorum.RankReport
	claim   quorum.Claim
	rank1   quorum.Rank     // see rankCommands
	vote1   quorum.RankVote // its newest
}

func (s *memberScript) run(t *testing.T, d *datadriven.TestData) string {
	do := map[string]func(*datadriven.TestData) string{
		"ranks": s.ranks, "vote": s.vote, "awaits": s.awaits, "result": s.result, "report": s.report, "join": s.join,
		"claim": s.claims,
	}[d.Cmd]
	if do == nil {
		do = s.rankCommands()[d.Cmd]
	}
	if do == nil {
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	return do(d)
}

func (s *memberScript) ranks(d *datadriven.TestData) string {
	var n int
	if _, err := fmt.Sscan(d.CmdArgs[0].Key, &n); err != nil {
		d.Fatalf(s.t, "%v", err)
	}
	s.polls, s.reports, s.claim = quorum.NewPolls(n), make([]quorum.RankReport, n), quorum.Claim{}
	return "ok\n"
}

func (s *memberScript) rank(d *datadriven.TestData) int {
	var rank int
	if _, err := fmt.Sscan(d.CmdArgs[0].Key, &rank); err != nil {
		d.Fatalf(s.t, "%v", err)
	}
	return rank
}

func (s *memberScript) attempt(d *datadriven.TestData) uint64 {
	n := uint64(1)
	d.MaybeScanArgs(s.t, "attempt", &n)
	return n
}

var votes = map[string]quorum.Vote{
	"yes": quorum.VoteYes, "no": quorum.VoteNo, "prepared": quorum.VotePrepared, "behind": quorum.VoteBehind,
}

func (s *memberScript) vote(d *datadriven.TestData) string {
	v := quorum.RankVote{GroupRank: s.rank(d), QuorumID: 7, Round: 1, Step: 5, Attempt: s.attempt(d)}
	for _, a := range d.CmdArgs[1:] {
		if kind, ok := votes[a.Key]; ok {
			v.Vote = kind
		}
	}
	v.Void, v.Broken, v.ChangeWanted = d.HasArg("void"), d.HasArg("broken"), d.HasArg("wants")
	v.Last = d.HasArg("last")
	d.MaybeScanArgs(s.t, "quorum", &v.QuorumID)
	d.MaybeScanArgs(s.t, "step", &v.Step)
	if err := s.polls.Vote(v); err != nil {
		return err.Error() + "\n"
	}
	return s.result(d)
}

func (s *memberScript) awaits(d *datadriven.TestData) string {
	r := quorum.RankReport{GroupRank: s.rank(d), Attempt: s.attempt(d)}
	if d.HasArg("prepared") {
		r.Fact.Kind = quorum.Prepared
	}
	next, ok := s.polls.Awaits(r)
	if next, ok := s.polls.Restarted(s.rank(d), s.attempt(d)); ok {
		return fmt.Sprintf("it was started again, and begins attempt %d\n", next)
	}
	if !ok {
		return "no\n"
	}
	return fmt.Sprintf("yes, and begins attempt %d then\n", next)
}

func (s *memberScript) result(d *datadriven.TestData) string {
	r, ok := s.polls.Result(s.attempt(d))
	if !ok {
		return "open\n"
	}
	return fmt.Sprintf("%v, stands=%t wanted=%t\n", r.Outcome, r.Stands, r.ChangeWanted)
}

func digestOf(text string) quorum.Digest {
	d := quorum.Digest{Valid: true}
	_, _ = fmt.Sscan(text, &d.Sum) // none: 0
	return d
}

func (s *memberScript) report(d *datadriven.TestData) string {
	rank := s.rank(d)
	r := quorum.RankReport{
		GroupRank: rank, Kind: quorum.JoinFall, Position: quorum.Position{Cluster: "x", Step: 4, QuorumID: 6},
		InitSync: true, ShrinkOnly: d.HasArg("shrink"), Sync: d.HasArg("sync"),
		Differs: d.HasArg("differs"),
	}
	var text string
	if d.MaybeScanArgs(s.t, "at", &text) {
		if _, err := fmt.Sscanf(text, "%d@%d", &r.Position.Step, &r.Position.QuorumID); err != nil {
			d.Fatalf(s.t, "%v", err)
		}
	}
	if d.MaybeScanArgs(s.t, "kind", &text) && text == "ask" {
		r.Kind = quorum.JoinAsk
	}
	d.MaybeScanArgs(s.t, "fixed", &r.FixedWorldSize)
	if d.MaybeScanArgs(s.t, "fact", &text) {
		kind, sum, _ := strings.Cut(text, ":")
		r.Fact = quorum.Fact{Step: 5, QuorumID: 7, Kind: map[string]quorum.FactKind{
			"prepared": quorum.Prepared, "refused": quorum.Refused, "gave-up": quorum.GaveUp,
		}[kind]}
		if r.Fact.Kind == quorum.Prepared {
			r.Fact.Digests = []quorum.Digest{digestOf(sum)}
		}
	}
	s.reports[rank] = r
	return "ok\n"
}

func (s *memberScript) join(*datadriven.TestData) string {
	j, err := quorum.MergeReports(quorum.Member{ReplicaID: "a", GroupWorldSize: len(s.reports)}, s.reports)
	if err != nil {
		return err.Error() + "\n"
	}
	at := j.Member.Position.String()
	if j.Member.Torn {
		at = "nowhere, torn"
	}
	if j.Member.Differs {
		at += ", differs"
	}
	return fmt.Sprintf("%v at %s: %v %v shrink=%t sync=%t\n", j.Kind, at, j.Fact, j.Fact.Digests,
		j.Member.ShrinkOnly, j.Member.Sync)
}

// claims does one thing to the rank's claim, and says what its fall join would.
func (s *memberScript) claims(d *datadriven.TestData) string {
	out, c := "", &s.claim
	switch a := d.CmdArgs[0]; a.Key {
	case "promise":
		c.Promise(5, 7)
	case "refuse":
		c.Refuse()
	case "give-up":
		c.GiveUp()
	case "tell":
		c.Tell(quorum.Fact{Kind: quorum.Committed, Step: 5, QuorumID: 7, Digests: []quorum.Digest{digestOf(a.Vals[0])}})
	case "judged":
		kind, sum, _ := strings.Cut(a.Vals[0], ":")
		v := c.Judged(quorum.Verdict{Vote: votes[kind]}, 5, 7, 0, digestOf(sum))
		out = fmt.Sprintf("votes %v\n", v.Vote)
	case "settle":
		at := quorum.Position{Cluster: "x"}
		if _, err := fmt.Sscanf(a.Vals[0], "%d@%d", &at.Step, &at.QuorumID); err != nil {
			d.Fatalf(s.t, "%v", err)
		}
		r := c.Settle(at, "x")
		out = fmt.Sprintf("known=%t forward=%t\n", r.Known, r.Forward)
	case "fact":
	default:
		d.Fatalf(s.t, "claim %s?", a.Key)
	}
	f := c.Fact(quorum.Position{Cluster: "x", Step: 4, QuorumID: 6}, 7)
	return out + fmt.Sprintf("would say: %v %v\n", f, f.Digests)
}
