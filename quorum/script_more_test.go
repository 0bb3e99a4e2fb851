package quorum_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/skerry-ft/skerry/quorum"
)

// doJoin: join a b [kind=fall|ask] [at=step@quorum] [fact=prepared:digest]
// [step=N] [shrink] [failures=N] [sync] [initsync] [fixed=N] [ranks=N]
// [no-last] [again] [torn] [differs] [accuse=(b,c)]. A fact is about the step after the
// replica's own, in the quorum of its last answer.
func (s *script) doJoin(d *datadriven.TestData) {
	for _, id := range joiners(d) {
		a := s.actor(id)
		j := quorum.Join{
			Member: quorum.Member{
				ReplicaID: id, Address: "http://" + string(id), StoreAddress: string(id) + ":1", Position: a.pos,
			},
			Client: s.client, Kind: quorum.JoinFall, Last: a.last, LastDigests: a.digests,
		}
		if s.client == quorum.KindTorchft {
			j.Kind, j.Last, j.LastDigests = quorum.JoinStep, nil, nil
		}
		s.joinArgs(d, a, &j)
		if !d.HasArg("again") {
			a.number++
		}
		j.Number = a.number
		s.say(id, s.m.Join(s.now, j))
	}
}

// joiners are the bare words that are no switch.
func joiners(d *datadriven.TestData) []quorum.ReplicaID {
	var out []quorum.ReplicaID
	for _, id := range ids(d) {
		switch id {
		case "shrink", "sync", "initsync", "again", "no-last", "torn", "differs":
		default:
			out = append(out, id)
		}
	}
	return out
}

func (s *script) joinArgs(d *datadriven.TestData, a *actor, j *quorum.Join) {
	for _, arg := range d.CmdArgs {
		value := strings.Join(arg.Vals, ",")
		switch arg.Key {
		case "kind":
			j.Kind = map[string]quorum.JoinKind{"fall": quorum.JoinFall, "ask": quorum.JoinAsk}[value]
		case "at":
			a.pos = s.position(value)
			j.Member.Position = a.pos
		case "step":
			j.Member.Position = quorum.Position{Step: s.number(value)}
		case "fact":
			j.Fact = s.fact(a, value)
		case "failures":
			j.Member.CommitFailures = s.number(value)
		case "fixed":
			j.Member.FixedWorldSize = int(s.number(value))
		case "ranks":
			j.Member.GroupWorldSize = int(s.number(value))
		case "accuse":
			for _, whom := range arg.Vals {
				j.Accusations = append(j.Accusations, quorum.Accusation{
					By: j.Member.ReplicaID, Against: quorum.ReplicaID(whom), QuorumID: a.last.QuorumID, Evidence: "reset",
				})
			}
		case "shrink":
			j.Member.ShrinkOnly = true
		case "sync":
			j.Member.Sync = true
		case "initsync":
			j.Member.InitSync = true
		case "no-last":
			j.Last = nil
		case "torn":
			a.pos = quorum.Position{}
			j.Member.Torn, j.Member.Position, j.LastDigests = true, a.pos, nil
		case "differs":
			j.Member.Differs = true
		}
	}
}

// fact parses kind[:digest[+digest]].
func (s *script) fact(a *actor, text string) quorum.Fact {
	kind, digests, _ := strings.Cut(text, ":")
	f := quorum.Fact{Step: a.pos.Step + 1}
	if a.last != nil {
		f.QuorumID = a.last.QuorumID
	}
	f.Kind = map[string]quorum.FactKind{
		"committed": quorum.Committed, "prepared": quorum.Prepared, "gave-up": quorum.GaveUp, "refused": quorum.Refused,
	}[kind]
	if f.Kind == quorum.NoFact {
		s.t.Fatalf("unknown fact %q", text)
	}
	if digests != "" {
		f.Digests = digestsOf(strings.Split(digests, "+")...)
	}
	return f
}

// digestsOf makes one digest per group rank from numbers.
func digestsOf(sums ...string) []quorum.Digest {
	var out []quorum.Digest
	for _, sum := range sums {
		n, err := strconv.ParseUint(sum, 10, 32)
		if err != nil {
			panic(err)
		}
		out = append(out, quorum.Digest{Valid: true, Sum: uint32(n)})
	}
	return out
}

func (s *script) position(text string) quorum.Position {
	step, id, ok := strings.Cut(text, "@")
	p := quorum.Position{Step: s.number(step)}
	if ok {
		p.Cluster, p.QuorumID = "x", s.number(id)
	}
	return p
}

func (s *script) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// doAssign: assign a rank=N
func (s *script) doAssign(d *datadriven.TestData) {
	var rank int
	d.MaybeScanArgs(s.t, "rank", &rank)
	for _, id := range ids(d) {
		a, err := quorum.Assign(s.m.Last(), id, rank)
		if err != nil {
			s.printf("%s: %v\n", id, err)
			continue
		}
		s.printf("%s: rank %d of %d, participant %d of %d, store %s\n", id, a.ReplicaRank, a.ReplicaWorldSize,
			a.ParticipantRank, a.Divisor, a.StoreAddress)
		if a.Heal {
			s.printf("  heals to %v from%s\n", a.Max, peerNames(a.Sources))
		}
		if len(a.Targets) > 0 {
			s.printf("  serves%s\n", peerNames(a.Targets))
		}
	}
}

func peerNames(peers []quorum.Peer) string {
	var b strings.Builder
	for _, p := range peers {
		fmt.Fprintf(&b, " %s", p.ReplicaID)
	}
	return b.String()
}

func (s *script) doStatus(*datadriven.TestData) {
	st := s.m.Status(s.now)
	s.printf("stands=%t ready=%t %s\n", st.Stands, st.Ready, st.Reason)
	for _, r := range st.Replicas {
		s.printf("  %s %s", r.ReplicaID, r.State)
		if r.Why != "" {
			s.printf(" (%s)", r.Why)
		}
		if r.Member {
			s.printf(" member")
		}
		s.printf(" at %v\n", r.Position)
	}
}

func (s *script) doLedger(*datadriven.TestData) {
	l := s.m.Ledger()
	s.printf("%s kind=%v highest id=%d\n", l.Cluster, l.Client, l.HighestID)
	if l.Last != nil {
		s.printf("  last %d round %d: %s\n", l.Last.ID, l.Last.Round, l.Last.Reason)
	}
	for _, e := range l.Settled {
		s.printf("  settled %v %v\n", e, e.Digests)
	}
	for _, h := range l.History {
		s.printf("  history %d/%d %v joined=%v left=%v\n", h.QuorumID, h.Round, h.Members, h.Joined, h.Left)
	}
	if len(l.Drained)+len(l.Evicted) > 0 {
		s.printf("  drained=%v evicted=%v\n", l.Drained, l.Evicted)
	}
}
