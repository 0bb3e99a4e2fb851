package wire

import (
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// Hello is what a replica says of itself when it opens a session.
type Hello struct {
	Job            string
	Address        string // URL of its manager server
	StoreAddress   string // host:port of its store
	GroupWorldSize int
	Relay          bool   // the server is to pass the session on to the leader
	Avoid          string // host:port of the server just lost: do not redirect there yet
	TotalSteps     int64  // of the run; 0: it does not know
	quorum.Hello
}

// HelloToProto converts h.
func HelloToProto(h Hello) *skerrypb.SessionHello {
	return &skerrypb.SessionHello{
		Job: h.Job, ReplicaId: string(h.ReplicaID),
		Address: h.Address, StoreAddress: h.StoreAddress,
		GroupWorldSize: uint32(h.GroupWorldSize),
		Position:       PositionToProto(h.Position),
		Last:           LastAnswerToProto(h.Last),
		Accusations:    AccusationsToProto(h.Accusations),
		Relay:          h.Relay, Avoid: h.Avoid, TotalSteps: h.TotalSteps,
	}
}

// HelloFromProto converts h. Who says hello is a client of ours.
func HelloFromProto(h *skerrypb.SessionHello) (Hello, error) {
	var c check
	c.enter("hello")
	r := Hello{
		Job:            c.job("job", h.GetJob()),
		Address:        c.text("address", h.GetAddress(), MaxAddressBytes),
		StoreAddress:   c.text("store_address", h.GetStoreAddress(), MaxAddressBytes),
		GroupWorldSize: int(c.number("group_world_size", int64(h.GetGroupWorldSize()), 1, MaxGroupWorldSize)),
		Relay:          h.GetRelay(),
		Avoid:          c.text("avoid", h.GetAvoid(), MaxAddressBytes),
		TotalSteps:     c.rising("total_steps", h.GetTotalSteps()),
		Hello: quorum.Hello{
			ReplicaID: c.newID("replica_id", h.GetReplicaId()),
			Client:    quorum.KindSkerry,
			Position:  c.position("position", h.GetPosition()),
			Last:      c.lastAnswer("last", h.GetLast()),

			Accusations: c.accusations("accusations", h.GetAccusations()),
		},
	}
	return r, c.result()
}

// BeatToProto converts b.
func BeatToProto(b quorum.Beat) *skerrypb.Beat {
	return &skerrypb.Beat{
		Position: PositionToProto(b.Position),
		QuorumId: b.QuorumID,
		Ballots:  b.Ballots,
		Phase:    skerrypb.Phase(b.Phase),
		Progress: b.Progress,
		Waits:    &b.Waits,
		Away:     b.Away,
		OwnUs:    uint64(b.Own.Microseconds()), WaitUs: uint64(b.Wait.Microseconds()),
		HealBytes: b.HealBytes, HealTotalBytes: b.HealTotal, Discarded: b.Discarded,
	}
}

// BeatFromProto converts b.
func BeatFromProto(b *skerrypb.Beat) (quorum.Beat, error) {
	var c check
	c.enter("beat")
	r := quorum.Beat{
		Position: c.position("position", b.GetPosition()),
		QuorumID: c.rising("quorum_id", b.GetQuorumId()),
		Ballots:  c.counter("ballots", b.GetBallots()),
		Phase:    quorum.Phase(c.enum("phase", int32(b.GetPhase()), int32(quorum.PhaseDraining))),
		Progress: b.GetProgress(),
		Waits:    b == nil || b.Waits == nil || b.GetWaits(),
		Away:     b.GetAway(),
		Own:      upToHour(b.GetOwnUs()), Wait: upToHour(b.GetWaitUs()),
		HealBytes: b.GetHealBytes(), HealTotal: b.GetHealTotalBytes(), Discarded: b.GetDiscarded(),
	}
	return r, c.result()
}

// JoinToProto converts j.
func JoinToProto(j quorum.Join) *skerrypb.Join {
	return &skerrypb.Join{
		Member:      MemberToProto(j.Member),
		Kind:        skerrypb.JoinKind(j.Kind),
		Number:      j.Number,
		LastDigests: DigestsToProto(j.LastDigests),
		Fact:        FactToProto(j.Fact),
		Last:        LastAnswerToProto(j.Last),
		Accusations: AccusationsToProto(j.Accusations),
		Why:         Evidence(j.Fall.Why), AgoUs: uint64(j.Fall.Ago.Microseconds()), Void: j.Fall.Void,
	}
}

// JoinFromProto converts a join that came over a session, so from a client of
// ours.
func JoinFromProto(j *skerrypb.Join) (quorum.Join, error) {
	var c check
	c.enter("join")
	r := quorum.Join{
		Member:      c.oneMember("member", j.GetMember()),
		Client:      quorum.KindSkerry,
		Kind:        quorum.JoinKind(c.enum("kind", int32(j.GetKind()), int32(quorum.JoinAsk))),
		Number:      c.counter("number", j.GetNumber()),
		LastDigests: c.digests("last_digests", j.GetLastDigests()),
		Fact:        c.fact("fact", j.GetFact()),
		Last:        c.lastAnswer("last", j.GetLast()),
		Accusations: c.accusations("accusations", j.GetAccusations()),
		Fall:        fallFromProto(j.GetWhy(), j.GetAgoUs()),
	}
	r.Fall.Void = j.GetVoid()
	return r, c.result()
}

// maxAgo is what a longer time since a fall counts as: a quorum that is put together for so
// long has no cost to the millisecond.
const maxAgo = time.Hour

func upToHour(us uint64) time.Duration {
	return time.Duration(min(us, uint64(maxAgo/time.Microsecond))) * time.Microsecond
}

// fallFromProto takes what a peer says of its fall: what is no text that may be shown is made
// one.
func fallFromProto(why string, agoUs uint64) quorum.Fall {
	return quorum.Fall{Why: Evidence(why), Ago: upToHour(agoUs)}
}

// Timing is how often a replica beats and how long the lighthouse waits.
type Timing struct {
	BeatInterval     time.Duration
	HeartbeatTimeout time.Duration
	JoinTimeout      time.Duration
	// ServerBeat is how often the lighthouse says something on the stream, so
	// that one which hangs is noticed. 0: it need not.
	ServerBeat time.Duration
}

// TimingToProto converts t.
func TimingToProto(t Timing) *skerrypb.Timing {
	return &skerrypb.Timing{
		BeatIntervalMs:     milliseconds(t.BeatInterval),
		HeartbeatTimeoutMs: milliseconds(t.HeartbeatTimeout),
		JoinTimeoutMs:      milliseconds(t.JoinTimeout),
		ServerBeatMs:       millisecondsOrNone(t.ServerBeat),
	}
}

// TimingFromProto converts t.
func TimingFromProto(t *skerrypb.Timing) (Timing, error) {
	var c check
	c.enter("timing")
	r := c.timing(t)
	return r, c.result()
}

// timed is what carries a timing: a Timing or a Welcome.
type timed interface {
	GetBeatIntervalMs() uint32
	GetHeartbeatTimeoutMs() uint32
	GetJoinTimeoutMs() uint32
	GetServerBeatMs() uint32
}

func (c *check) timing(t timed) Timing {
	return Timing{
		BeatInterval:     c.timeout("beat_interval_ms", t.GetBeatIntervalMs()),
		HeartbeatTimeout: c.timeout("heartbeat_timeout_ms", t.GetHeartbeatTimeoutMs()),
		JoinTimeout:      c.timeout("join_timeout_ms", t.GetJoinTimeoutMs()),
		ServerBeat:       c.timeoutOrNone("server_beat_ms", t.GetServerBeatMs()),
	}
}

// timeout converts a number of milliseconds that must be positive.
func (c *check) timeout(field string, ms uint32) time.Duration {
	return time.Duration(c.number(field, int64(ms), 1, MaxTimeout.Milliseconds())) * time.Millisecond
}

// timeoutOrNone converts a number of milliseconds that may be 0.
func (c *check) timeoutOrNone(field string, ms uint32) time.Duration {
	return time.Duration(c.number(field, int64(ms), 0, MaxTimeout.Milliseconds())) * time.Millisecond
}

// millisecondsOrNone is milliseconds, but for 0.
func millisecondsOrNone(d time.Duration) uint32 {
	if d == 0 {
		return 0
	}
	return milliseconds(d)
}

// milliseconds rounds d up to milliseconds, within what timeout accepts.
func milliseconds(d time.Duration) uint32 {
	d = min(max(d, time.Millisecond), MaxTimeout)
	return uint32((d + time.Millisecond - 1) / time.Millisecond)
}

// Welcome is the lighthouse's answer to a hello.
type Welcome struct {
	Cluster string
	Servers []string // host:port of all lighthouse servers that it knows
	Timing
	Sources quorum.Sources
}

// WelcomeToProto converts w.
func WelcomeToProto(w Welcome) *skerrypb.Welcome {
	return &skerrypb.Welcome{
		Cluster:            w.Cluster,
		BeatIntervalMs:     milliseconds(w.BeatInterval),
		HeartbeatTimeoutMs: milliseconds(w.HeartbeatTimeout),
		JoinTimeoutMs:      milliseconds(w.JoinTimeout), ServerBeatMs: millisecondsOrNone(w.ServerBeat),
		Servers: w.Servers,
		Sources: SourcesToProto(w.Sources),
	}
}

// WelcomeFromProto converts w.
func WelcomeFromProto(w *skerrypb.Welcome) (Welcome, error) {
	var c check
	c.enter("welcome")
	r := Welcome{
		Cluster: c.text("cluster", w.GetCluster(), MaxClusterBytes),
		Servers: c.texts("servers", w.GetServers(), MaxServers, MaxAddressBytes),
		Timing:  c.timing(w),
		Sources: c.sources("sources", w.GetSources()),
	}
	return r, c.result()
}

// SourcesToProto converts s; nil if there are none.
func SourcesToProto(s quorum.Sources) *skerrypb.Sources {
	if len(s.Peers) == 0 {
		return nil
	}
	return &skerrypb.Sources{Max: PositionToProto(s.Max), Token: s.Token[:], Peers: peersToProto(s.Peers)}
}

// SourcesFromProto converts s.
func SourcesFromProto(s *skerrypb.Sources) (quorum.Sources, error) {
	return whole("sources", s, (*check).sources)
}

func (c *check) sources(field string, s *skerrypb.Sources) quorum.Sources {
	if s == nil {
		return quorum.Sources{}
	}
	c.enter(field)
	defer c.leave()
	r := quorum.Sources{Max: c.position("max", s.GetMax())}
	c.token(&r.Token, s.GetToken())
	r.Peers = c.peers("peers", s.GetPeers(), quorum.MaxSources, MaxMembers)
	return r
}

// Redirect is what a server that does not lead answers to a hello.
type Redirect struct {
	Leader  string   // host:port
	Servers []string // as in Welcome
}

// RedirectToProto converts r.
func RedirectToProto(r Redirect) *skerrypb.Redirect {
	return &skerrypb.Redirect{Leader: r.Leader, Servers: r.Servers}
}

// RedirectFromProto converts r. A redirect names a leader.
func RedirectFromProto(r *skerrypb.Redirect) (Redirect, error) {
	var c check
	c.enter("redirect")
	if r.GetLeader() == "" {
		c.bad("leader", "", "host:port")
	}
	out := Redirect{
		Leader:  c.text("leader", r.GetLeader(), MaxAddressBytes),
		Servers: c.texts("servers", r.GetServers(), MaxServers, MaxAddressBytes),
	}
	return out, c.result()
}

// texts checks a list of strings.
func (c *check) texts(field string, ss []string, most, limit int) []string {
	return list(c, field, ss, most, func(s string) string { return c.text("text", s, limit) })
}

// AnswerFromProto returns the answer's quorum. The number needs no bound: the
// caller compares it with its own.
func AnswerFromProto(a *skerrypb.Answer) (quorum.Quorum, error) {
	return whole("answer.quorum", a.GetQuorum(), (*check).quorum)
}

// NoticeToProto converts what the rules want pushed into the message for a
// session.
func NoticeToProto(n quorum.Notice) *skerrypb.Down {
	switch n.Kind {
	case quorum.NoticeFallen:
		return &skerrypb.Down{Message: &skerrypb.Down_Fallen{Fallen: &skerrypb.Fallen{
			QuorumId: n.QuorumID, ReplicaId: string(n.About), Fact: FactToProto(n.Fact)}}}
	case quorum.NoticeLost:
		return &skerrypb.Down{Message: &skerrypb.Down_Lost{Lost: &skerrypb.Lost{
			QuorumId: n.QuorumID, ReplicaId: string(n.About), Why: Text(n.Reason), Cause: uint32(n.Cause)}}}
	case quorum.NoticeWanted:
		return &skerrypb.Down{Message: &skerrypb.Down_ChangeWanted{ChangeWanted: &skerrypb.ChangeWanted{
			QuorumId: n.QuorumID, Reason: Text(n.Reason)}}}
	case quorum.NoticeProbe:
		return &skerrypb.Down{Message: &skerrypb.Down_Probe{Probe: &skerrypb.Probe{
			Number: n.Number, QuorumId: n.QuorumID}}}
	case quorum.NoticeDrain, quorum.NoticeStay:
		return &skerrypb.Down{Message: &skerrypb.Down_Drain{Drain: &skerrypb.DrainNotice{
			Reason: Text(n.Reason), Undone: n.Kind == quorum.NoticeStay}}}
	case quorum.NoticeEvict:
		return &skerrypb.Down{Message: &skerrypb.Down_Evict{Evict: &skerrypb.EvictNotice{Reason: Text(n.Reason)}}}
	case quorum.NoticeRefused:
		return &skerrypb.Down{Message: &skerrypb.Down_Refused{Refused: RefusalOf(n.Number, refusedNotice(n))}}
	}
	panic(fmt.Sprintf("wire: notice of unknown kind %d", n.Kind))
}

// refusedNotice is the error that a NoticeRefused stands for.
func refusedNotice(n quorum.Notice) error {
	if n.Reason == "" {
		return quorum.ErrNameInUse
	}
	return fmt.Errorf("%w: %s", quorum.ErrNameInUse, n.Reason)
}

// NoticeFromProto converts a message down that is a notice; ok says whether it
// is one (a refusal is not: see RefusalError). To is empty: the notice is for
// whoever received it.
func NoticeFromProto(d *skerrypb.Down) (n quorum.Notice, ok bool, err error) {
	p := d.GetProbe()
	if p == nil {
		return noticeOf(d)
	}
	var c check
	c.enter("probe")
	n = quorum.Notice{Kind: quorum.NoticeProbe, Number: p.GetNumber(), QuorumID: c.rising("quorum_id", p.GetQuorumId())}
	return n, true, c.result()
}

// NoticeToRank converts a notice into the message by which a manager server
// passes it on to its ranks; nil for a probe and a refusal, which are the
// server's own affair.
func NoticeToRank(n quorum.Notice) *skerrypb.RankNotice {
	switch m := NoticeToProto(n).GetMessage().(type) {
	case *skerrypb.Down_Fallen:
		return &skerrypb.RankNotice{Message: &skerrypb.RankNotice_Fallen{Fallen: m.Fallen}}
	case *skerrypb.Down_Lost:
		return &skerrypb.RankNotice{Message: &skerrypb.RankNotice_Lost{Lost: m.Lost}}
	case *skerrypb.Down_ChangeWanted:
		return &skerrypb.RankNotice{Message: &skerrypb.RankNotice_ChangeWanted{ChangeWanted: m.ChangeWanted}}
	case *skerrypb.Down_Drain:
		return &skerrypb.RankNotice{Message: &skerrypb.RankNotice_Drain{Drain: m.Drain}}
	case *skerrypb.Down_Evict:
		return &skerrypb.RankNotice{Message: &skerrypb.RankNotice_Evict{Evict: m.Evict}}
	}
	return nil
}

// NoticeFromRank converts a rank's message that is a notice of the lighthouse;
// ok says whether it is one (a hello or a sibling's word is not).
func NoticeFromRank(r *skerrypb.RankNotice) (n quorum.Notice, ok bool, err error) { return noticeOf(r) }

// noticed is what carries a notice of the lighthouse for a rank: a Down or a RankNotice.
type noticed interface {
	GetFallen() *skerrypb.Fallen
	GetLost() *skerrypb.Lost
	GetChangeWanted() *skerrypb.ChangeWanted
	GetDrain() *skerrypb.DrainNotice
	GetEvict() *skerrypb.EvictNotice
}

func noticeOf(m noticed) (n quorum.Notice, ok bool, err error) {
	var c check
	switch fallen, lost, wanted, drain, evict := m.GetFallen(), m.GetLost(), m.GetChangeWanted(), m.GetDrain(), m.GetEvict(); {
	case fallen != nil:
		c.enter("fallen")
		n = quorum.Notice{
			Kind:     quorum.NoticeFallen,
			QuorumID: c.rising("quorum_id", fallen.GetQuorumId()),
			About:    quorum.ReplicaID(c.text("replica_id", fallen.GetReplicaId(), MaxReplicaIDBytes)), // may be empty
			Fact:     c.fact("fact", fallen.GetFact()),
		}
	case lost != nil:
		c.enter("lost")
		n = quorum.Notice{
			Kind:     quorum.NoticeLost,
			QuorumID: c.rising("quorum_id", lost.GetQuorumId()),
			About:    c.id("replica_id", lost.GetReplicaId()),
			Reason:   c.text("why", lost.GetWhy(), MaxTextBytes),
		}
		if kind := lost.GetCause(); kind <= uint32(quorum.CauseAbsent) { // else of a newer version
			n.Cause = quorum.CauseKind(kind)
		}
	case wanted != nil:
		c.enter("change_wanted")
		n = quorum.Notice{Kind: quorum.NoticeWanted, QuorumID: c.rising("quorum_id", wanted.GetQuorumId()),
			Reason: c.text("reason", wanted.GetReason(), MaxTextBytes)}
	case drain != nil:
		n = quorum.Notice{Kind: quorum.NoticeDrain, Reason: c.text("reason", drain.GetReason(), MaxTextBytes)}
		if drain.GetUndone() { // a member that is older drains on
			n.Kind = quorum.NoticeStay
		}
	case evict != nil:
		n = quorum.Notice{Kind: quorum.NoticeEvict, Reason: c.text("reason", evict.GetReason(), MaxTextBytes)}
	default:
		return quorum.Notice{}, false, nil
	}
	return n, true, c.result()
}
