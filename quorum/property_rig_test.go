package quorum_test

import (
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// rig drives one machine of our own clients in the property tests' scenes.
type rig struct {
	t   *testing.T
	now time.Time
	m   *quorum.Machine
	num uint64
	in  map[quorum.ReplicaID]*quorum.LastAnswer
	pos map[quorum.ReplicaID]quorum.Position
	up  map[quorum.ReplicaID]bool // open sessions, that beat
}

func newRig(t *testing.T, cfg quorum.Config) *rig {
	t.Helper()
	now := time.Unix(1_700_000_000, 0)
	return &rig{
		t: t, now: now, m: quorum.New(now, cfg, quorum.NewLedger("x", "default", 1000)),
		in:  map[quorum.ReplicaID]*quorum.LastAnswer{},
		pos: map[quorum.ReplicaID]quorum.Position{},
		up:  map[quorum.ReplicaID]bool{},
	}
}

// merit is a rig with a quorum of the named replicas that stands.
func standing(t *testing.T, cfg quorum.Config, names ...quorum.ReplicaID) *rig {
	t.Helper()
	r := newRig(t, cfg)
	for _, n := range names {
		r.open(n)
	}
	for _, n := range names {
		r.fall(n, quorum.Fact{})
	}
	r.wait(cfg.HeartbeatTimeout + time.Second)
	if q := r.form(); q == nil || !slices.Equal(idsOf(q), names) {
		t.Fatalf("no quorum of %v: %v", names, r.m.Decide(r.now).Reason)
	}
	return r
}

func (r *rig) open(id quorum.ReplicaID) {
	r.t.Helper()
	h := quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry, Position: r.pos[id], Last: r.in[id]}
	if err := r.m.Open(r.now, h); err != nil {
		r.t.Fatalf("open %s: %v", id, err)
	}
	r.up[id] = true
}

func (r *rig) fall(id quorum.ReplicaID, f quorum.Fact) {
	r.t.Helper()
	r.join(id, quorum.JoinFall, f)
}

func (r *rig) ask(id quorum.ReplicaID) {
	r.t.Helper()
	r.join(id, quorum.JoinAsk, quorum.Fact{})
}

func (r *rig) join(id quorum.ReplicaID, kind quorum.JoinKind, f quorum.Fact) {
	r.t.Helper()
	if err := r.m.Join(r.now, r.makeJoin(id, kind, f)); err != nil {
		r.t.Fatalf("join of %s: %v", id, err)
	}
}

// makeJoin is the join that id would send, numbered anew.
func (r *rig) makeJoin(id quorum.ReplicaID, kind quorum.JoinKind, f quorum.Fact) quorum.Join {
	r.num++
	j := quorum.Join{
		Member: quorum.Member{
			ReplicaID: id, Address: "http://" + string(id), StoreAddress: string(id) + ":1",
			GroupWorldSize: 1, Position: r.pos[id],
		},
		Client: quorum.KindSkerry, Kind: kind, Number: r.num, Fact: f, Last: r.in[id],
	}
	if p := r.pos[id]; p.Step > 0 {
		j.LastDigests = digest(uint32(p.Step))
	}
	return j
}

// commit moves members to the next step of their quorum.
func (r *rig) commit(ids ...quorum.ReplicaID) {
	for _, id := range ids {
		r.pos[id] = quorum.Position{Cluster: "x", Step: r.pos[id].Step + 1, QuorumID: r.in[id].QuorumID}
	}
}

// prepared is id's fact of having promised its next step.
func (r *rig) prepared(id quorum.ReplicaID) quorum.Fact {
	s := r.pos[id].Step + 1
	return quorum.Fact{Kind: quorum.Prepared, Step: s, QuorumID: r.in[id].QuorumID, Digests: digest(uint32(s))}
}

func digest(sum uint32) []quorum.Digest { return []quorum.Digest{{Valid: true, Sum: sum}} }

// beat lets all open sessions beat, and answers all probes.
func (r *rig) beat() {
	r.t.Helper()
	for _, id := range sortedIDs(r.up) {
		if !r.up[id] {
			continue
		}
		b := quorum.Beat{Position: r.pos[id]}
		if l := r.in[id]; l != nil {
			b.QuorumID = l.QuorumID
		}
		if err := r.m.Beat(r.now, id, b); err != nil {
			r.t.Fatalf("beat of %s: %v", id, err)
		}
	}
}

// wait lets time go by, with beats, or until a quorum is ready.
func (r *rig) wait(d time.Duration) {
	r.t.Helper()
	for end := r.now.Add(d); r.now.Before(end) && !r.m.Decide(r.now).Ready; {
		r.now = r.now.Add(tick)
		r.beat()
		r.probes()
	}
}

func (r *rig) probes() {
	for _, n := range r.m.Notices() {
		for _, id := range n.To {
			if n.Kind == quorum.NoticeProbe && r.up[id] {
				r.m.Reply(r.now, id, n.Number)
			}
		}
	}
}

// form makes what is ready so; nil if nothing is.
func (r *rig) form() *quorum.Quorum {
	r.t.Helper()
	d := r.m.Decide(r.now)
	if !d.Ready {
		return nil
	}
	q := r.m.Form(r.now, d, quorum.Token{1}, 1)
	for _, a := range d.Answers {
		r.in[a.ReplicaID] = lastAnswer(&q)
		for _, m := range q.Members {
			if m.ReplicaID == a.ReplicaID {
				r.pos[m.ReplicaID] = m.Position
			}
		}
	}
	return &q
}

// mustForm is form, where a quorum is due.
func (r *rig) mustForm(want ...quorum.ReplicaID) *quorum.Quorum {
	r.t.Helper()
	q := r.form()
	if q == nil {
		r.t.Fatalf("no quorum, want one of %v: %v", want, r.m.Decide(r.now).Reason)
	}
	if len(want) > 0 && !slices.Equal(idsOf(q), want) {
		r.t.Fatalf("quorum of %v, want %v", idsOf(q), want)
	}
	return q
}

// refuses fails the test if a quorum is ready.
func (r *rig) refuses(code quorum.ReasonCode) {
	r.t.Helper()
	if d := r.m.Decide(r.now); d.Ready || d.Reason.Code != code {
		r.t.Fatalf("ready %v, %v; want not ready, %v", d.Ready, d.Reason, code)
	}
}

// die breaks id's session, with a peer as second witness.
func (r *rig) die(id, witness quorum.ReplicaID) {
	r.t.Helper()
	r.up[id] = false
	r.m.Broken(r.now, id, "reset", false)
	a := quorum.Accusation{By: witness, Against: id, QuorumID: r.in[witness].QuorumID, Evidence: "reset"}
	if err := r.m.Accuse(r.now, a); err != nil {
		r.t.Fatalf("accuse: %v", err)
	}
}
