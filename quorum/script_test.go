package quorum_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/skerry-ft/skerry/quorum"
)

// TestTranscripts runs testdata: prose, command, golden. Each file is a scene
// with one machine and a clock. `go test ./quorum -run Transcripts -rewrite`
// writes the goldens anew; read the diff.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		s := &script{t: t, replicas: map[quorum.ReplicaID]*actor{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			return s.run(d)
		})
	})
}

// script is one scene: a machine, its clock, and the replicas as they see
// themselves.
type script struct {
	t        *testing.T
	start    time.Time
	now      time.Time
	cfg      quorum.Config
	m        *quorum.Machine
	client   quorum.ClientKind
	replicas map[quorum.ReplicaID]*actor
	beating  []quorum.ReplicaID
	out      strings.Builder
	ready    bool
}

// actor is a replica's own state.
type actor struct {
	pos     quorum.Position
	digests []quorum.Digest
	last    *quorum.LastAnswer
	number  uint64
	beat    quorum.Beat
}

func (s *script) actor(id quorum.ReplicaID) *actor {
	a := s.replicas[id]
	if a == nil {
		a = &actor{}
		s.replicas[id] = a
	}
	return a
}

func (s *script) run(d *datadriven.TestData) string {
	s.out.Reset()
	commands := map[string]func(*datadriven.TestData){
		"new": s.doNew, "leader": s.doLeader, "advance": s.doAdvance, "at": s.doAt, "beating": s.doBeating,
		"open": s.doOpen, "join": s.doJoin, "heartbeat": s.doHeartbeat, "beat": s.doBeat, "broken": s.doBroken,
		"accuse": s.doAccuse, "reply": s.doReply, "withdraw": s.doWithdraw, "leave": s.doLeave,
		"drain": s.doDrain, "undrain": s.doUndrain, "evict": s.doEvict, "configure": s.doConfigure, "decide": s.doDecide,
		"form": s.doForm, "commit": s.doCommit, "heal": s.doHeal, "assign": s.doAssign, "status": s.doStatus,
		"ledger": s.doLedger, "wake": s.doWake, "doubt": s.doDoubt, "link": s.doLink,
	}
	do := commands[d.Cmd]
	if do == nil {
		d.Fatalf(s.t, "unknown command %q", d.Cmd)
	}
	do(d)
	if d.Cmd != "advance" && d.Cmd != "at" {
		s.drainOutputs("")
	}
	if s.out.Len() == 0 {
		return "ok\n"
	}
	return s.out.String()
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }

// drainOutputs prints what the machine pushed and noted.
func (s *script) drainOutputs(prefix string) {
	for _, e := range s.m.Events() {
		s.printf("%s. %s\n", prefix, e)
	}
	for _, n := range s.m.Notices() {
		s.printf("%s> %s\n", prefix, n)
	}
}

// ids are a command's bare words.
func ids(d *datadriven.TestData) []quorum.ReplicaID {
	var out []quorum.ReplicaID
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			out = append(out, quorum.ReplicaID(a.Key))
		}
	}
	return out
}

func (s *script) doNew(d *datadriven.TestData) {
	s.start = time.Unix(1_700_000_000, 0)
	s.now = s.start
	s.client = quorum.KindSkerry
	s.cfg = quorum.DefaultConfig()
	if d.HasArg("torchft") {
		s.client = quorum.KindTorchft
		s.cfg.HeartbeatTimeout = 5 * time.Second
	}
	s.configArgs(d)
	s.m = quorum.New(s.now, s.cfg, quorum.NewLedger("x", "default", 1000))
	s.m.Advance(s.now)
}

func (s *script) configArgs(d *datadriven.TestData) {
	d.MaybeScanArgs(s.t, "min", &s.cfg.MinReplicas)
	d.MaybeScanArgs(s.t, "max", &s.cfg.MaxReplicas)
	d.MaybeScanArgs(s.t, "probation-after", &s.cfg.ProbationAfter)
	for name, field := range map[string]*time.Duration{
		"join-timeout": &s.cfg.JoinTimeout, "heartbeat-timeout": &s.cfg.HeartbeatTimeout,
		"suspect-after": &s.cfg.SuspectAfter, "grace": &s.cfg.Grace, "stuck-after": &s.cfg.StuckAfter,
	} {
		var text string
		if d.MaybeScanArgs(s.t, name, &text) {
			*field = s.duration(text)
		}
	}
	if d.HasArg("evict-stuck") {
		s.cfg.EvictStuck = true
	}
}

func (s *script) duration(text string) time.Duration {
	v, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// doLeader starts a new leader, from the ledger or (fresh) from nothing.
func (s *script) doLeader(d *datadriven.TestData) {
	l := s.m.Ledger()
	if d.HasArg("fresh") {
		l = quorum.NewLedger("y", "default", 2000)
	}
	s.m = quorum.New(s.now, s.cfg, l)
}

func (s *script) doBeating(d *datadriven.TestData) { s.beating = ids(d) }

func (s *script) doAt(d *datadriven.TestData) {
	to := s.start.Add(s.duration(d.CmdArgs[0].Key))
	if to.Before(s.now) {
		d.Fatalf(s.t, "the clock is at %v", s.now.Sub(s.start))
	}
	s.pass(to)
}

func (s *script) doAdvance(d *datadriven.TestData) { s.pass(s.now.Add(s.duration(d.CmdArgs[0].Key))) }

// pass lets time pass: whoever is beating beats every 100 ms, and the shell
// looks at every Wake. It prints what happens and when, and when a decision
// becomes ready.
func (s *script) pass(to time.Time) {
	nextBeat := s.now.Add(100 * time.Millisecond)
	for {
		next := to
		if wake := s.m.Wake(s.now); !wake.IsZero() && wake.Before(next) {
			next = wake
		}
		if len(s.beating) > 0 && nextBeat.Before(next) {
			next = nextBeat
		}
		s.now = next
		if len(s.beating) > 0 && !nextBeat.After(s.now) {
			nextBeat = s.now.Add(100 * time.Millisecond)
			s.beatAll(s.beating)
		}
		s.m.Advance(s.now)
		d := s.m.Decide(s.now)
		prefix := fmt.Sprintf("%v ", s.now.Sub(s.start))
		s.drainOutputs(prefix)
		if d.Ready != s.ready {
			s.printf("%s= %s\n", prefix, s.decisionText(d))
		}
		s.ready = d.Ready
		if s.now.Equal(to) {
			return
		}
	}
}

func (s *script) beatAll(list []quorum.ReplicaID) {
	for _, id := range list {
		var err error
		if s.client == quorum.KindTorchft {
			err = s.m.Heartbeat(s.now, id)
		} else {
			a := s.actor(id)
			a.beat.Position = a.pos
			if a.last != nil {
				a.beat.QuorumID = a.last.QuorumID
			}
			err = s.m.Beat(s.now, id, a.beat)
		}
		if err != nil {
			s.printf("%s: %v\n", id, err)
		}
	}
}

func (s *script) doHeartbeat(d *datadriven.TestData) { s.beatAll(ids(d)) }

// doBeat: beat a b [ballots=1] [phase=training] [waits=true] [away=true]
func (s *script) doBeat(d *datadriven.TestData) {
	for _, id := range ids(d) {
		a := s.actor(id)
		var ballots uint64
		var phase string
		if d.MaybeScanArgs(s.t, "ballots", &ballots) {
			a.beat.Ballots = ballots
		}
		if d.MaybeScanArgs(s.t, "phase", &phase) {
			a.beat.Phase = map[string]quorum.Phase{
				"idle": quorum.PhaseIdle, "training": quorum.PhaseTraining, "joining": quorum.PhaseJoining,
			}[phase]
		}
		d.MaybeScanArgs(s.t, "waits", &a.beat.Waits)
		d.MaybeScanArgs(s.t, "away", &a.beat.Away)
		a.beat.Progress++
		s.beatAll([]quorum.ReplicaID{id})
	}
}

func (s *script) doOpen(d *datadriven.TestData) {
	for _, id := range ids(d) {
		a := s.actor(id)
		err := s.m.Open(s.now, quorum.Hello{ReplicaID: id, Client: s.client, Position: a.pos, Last: a.last})
		if err != nil {
			s.printf("%s: %v\n", id, err)
		}
	}
}

func (s *script) doBroken(d *datadriven.TestData) {
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 && a.Key != "with-server" {
			s.m.Broken(s.now, quorum.ReplicaID(a.Key), "EOF", d.HasArg("with-server"))
		}
	}
}

func (s *script) doAccuse(d *datadriven.TestData) {
	var by, of string
	d.ScanArgs(s.t, "by", &by)
	d.ScanArgs(s.t, "of", &of)
	a := quorum.Accusation{By: quorum.ReplicaID(by), Against: quorum.ReplicaID(of), Evidence: "connection reset"}
	if a.Unreachable = d.HasArg("unreachable"); a.Unreachable {
		a.Evidence = "no answer"
	}
	switch {
	case d.HasArg("odd"):
		a.Kind, a.Evidence = quorum.AccusedOdd, "called something else"
	case d.HasArg("unhealed"):
		a.Kind, a.Evidence = quorum.AccusedUnhealed, "its heal failed"
	case d.HasArg("differs"):
		a.Kind, a.Evidence = quorum.AccusedDiffers, "slice 1 of 4 of its state differs at step 8"
	}
	if last := s.actor(a.By).last; last != nil {
		a.QuorumID = last.QuorumID
	}
	if err := s.m.Accuse(s.now, a); err != nil {
		s.printf("%v\n", err)
	}
}

// doLink: link by=a to=b [holds]
func (s *script) doLink(d *datadriven.TestData) {
	var by, to string
	d.ScanArgs(s.t, "by", &by)
	d.ScanArgs(s.t, "to", &to)
	r := quorum.LinkReport{By: quorum.ReplicaID(by), To: quorum.ReplicaID(to), Holds: d.HasArg("holds"), Evidence: "no answer"}
	s.say(r.By, s.m.Link(s.now, r))
}

func (s *script) doReply(d *datadriven.TestData) {
	var number uint64
	d.ScanArgs(s.t, "probe", &number)
	for _, id := range ids(d) {
		s.m.Reply(s.now, id, number)
	}
}

func (s *script) doWithdraw(d *datadriven.TestData) {
	for _, id := range ids(d) {
		s.m.Withdraw(s.now, id, s.actor(id).number)
	}
}

func (s *script) doLeave(d *datadriven.TestData) {
	var why string
	d.MaybeScanArgs(s.t, "why", &why)
	for _, id := range ids(d) {
		s.m.Leave(s.now, id, why)
	}
}

func (s *script) doDrain(d *datadriven.TestData) {
	for _, id := range ids(d) {
		s.say(id, s.m.Drain(s.now, id, "maintenance"))
	}
}

func (s *script) doUndrain(d *datadriven.TestData) {
	var under *quorum.Quorum // what is written meanwhile
	for _, a := range d.CmdArgs {
		if a.Key == "under" {
			under = &quorum.Quorum{}
			for _, id := range a.Vals {
				under.Members = append(under.Members, quorum.Member{ReplicaID: quorum.ReplicaID(id)})
			}
		}
	}
	for _, id := range ids(d) {
		s.say(id, s.m.Undrain(s.now, id, "the wrong one", under))
	}
}

func (s *script) doEvict(d *datadriven.TestData) {
	for _, id := range ids(d) {
		s.say(id, s.m.Evict(s.now, id, "operator"))
	}
}

func (s *script) doConfigure(d *datadriven.TestData) {
	s.configArgs(d)
	s.say("", s.m.Configure(s.now, s.cfg))
}

func (s *script) doDoubt(d *datadriven.TestData) { s.m.Doubt(s.now, s.duration(d.CmdArgs[0].Key)) }

func (s *script) say(id quorum.ReplicaID, err error) {
	if err != nil {
		s.printf("%s: %v\n", id, err)
	}
}

func (s *script) doDecide(*datadriven.TestData) {
	s.m.Advance(s.now)
	d := s.m.Decide(s.now)
	s.ready = d.Ready
	s.drainOutputs("")
	s.printf("= %s\n", s.decisionText(d))
}

func (s *script) decisionText(d quorum.Decision) string {
	if d.Ready {
		return "ready, " + d.Reason.String()
	}
	return "not yet, " + d.Reason.String()
}

// doForm forms the next quorum and hands the answers out, but to those that
// lose= names.
func (s *script) doForm(d *datadriven.TestData) {
	dec := s.m.Decide(s.now)
	s.drainOutputs("")
	if !dec.Ready {
		s.printf("= %s\n", s.decisionText(dec))
		return
	}
	q := s.m.Form(s.now, dec, quorum.Token{1}, s.now.UnixMilli())
	s.ready = false
	s.drainOutputs("")
	s.printf("= quorum %d round %d changed=%t\n", q.ID, q.Round, dec.Changed)
	for rank, m := range q.Members {
		role := "spare"
		if slices.Contains(q.Participants, m.ReplicaID) {
			role = "participates"
		}
		if a, err := quorum.Assign(&q, m.ReplicaID, 0); err != nil {
			s.t.Fatal(err)
		} else if a.Heal {
			role = strings.TrimPrefix(role+", heals from "+string(a.Sources[0].ReplicaID), "spare, ")
		}
		s.printf("  %d %s at %s %s\n", rank, m.ReplicaID, m.Position, role)
	}
	if q.Settlement.Outcome != quorum.NothingToSettle {
		s.printf("  settled: %v\n", q.Settlement)
	}
	s.handOut(d, dec, q)
}

func (s *script) handOut(d *datadriven.TestData, dec quorum.Decision, q quorum.Quorum) {
	var lost []string
	for _, a := range d.CmdArgs {
		if a.Key == "lose" {
			lost = a.Vals
		}
	}
	var told []string
	for _, ans := range dec.Answers {
		told = append(told, fmt.Sprintf("%s#%d", ans.ReplicaID, ans.Number))
		a := s.actor(ans.ReplicaID)
		at := slices.IndexFunc(q.Members, func(m quorum.Member) bool { return m.ReplicaID == ans.ReplicaID })
		if slices.Contains(lost, string(ans.ReplicaID)) || at < 0 {
			continue
		}
		a.pos = q.Members[at].Position
		told := q
		if d.HasArg("views") {
			told = quorum.NewViewer(&q).For(ans.ReplicaID)
		}
		a.last = quorum.NewLastAnswer(&told)
	}
	s.printf("  answers: %s\n", strings.Join(told, " "))
}

// doCommit: the named replicas commit one step in their quorum.
func (s *script) doCommit(d *datadriven.TestData) {
	for _, id := range ids(d) {
		a := s.actor(id)
		a.pos = quorum.Position{Cluster: "x", Step: a.pos.Step + 1, QuorumID: a.last.QuorumID}
		a.digests = digestsOf(fmt.Sprint(a.pos.Step))
		a.beat.Ballots++
		a.beat.Progress++
	}
}

// doHeal: the named replicas have taken the highest state of their quorum.
func (s *script) doHeal(d *datadriven.TestData) {
	for _, id := range ids(d) {
		as, err := quorum.Assign(s.m.Last(), id, 0)
		if err != nil {
			d.Fatalf(s.t, "%v", err)
		}
		s.actor(id).pos = as.Max
	}
}

func (s *script) doWake(*datadriven.TestData) {
	if w := s.m.Wake(s.now); !w.IsZero() {
		s.printf("in %v\n", w.Sub(s.now))
	}
}
