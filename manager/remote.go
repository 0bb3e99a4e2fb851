package manager

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// remote is the link of the ranks other than 0. Safe for concurrent use.
type remote struct {
	rank     int
	conn     *grpc.ClientConn
	client   skerrypb.ManagerClient
	timeouts Timeouts
}

// newRemote prepares a link to the manager server at addr; the first call
// connects.
func newRemote(g *guard.Guard, n Network, addr string, rank int, t Timeouts) (*remote, error) {
	conn, err := dialPeer(g, n, addr)
	if err != nil {
		return nil, fmt.Errorf("dial the replica's manager at %s: %w", addr, err)
	}
	return &remote{rank: rank, conn: conn, client: skerrypb.NewManagerClient(conn), timeouts: t}, nil
}

func (r *remote) close() error { return r.conn.Close() }

func (r *remote) report(ctx context.Context, rep report) (reply, error) {
	m := wire.RankReportToProto(rep.RankReport)
	m.Attempt, m.Void = rep.Attempt, rep.Void
	out, err := r.client.Quorum(ctx, m, grpc.WaitForReady(true))
	if err == nil {
		return replyFromProto(out)
	}
	if ctx.Err() == nil {
		return reply{}, fromStatus(err)
	}
	// The claim must be back before the caller acts on not having an answer.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.timeouts.Call)
	defer cancel()
	m.Withdraw = true
	if out, err := r.client.Quorum(late, m); err == nil {
		if got, err := replyFromProto(out); err == nil && got.Quorum != nil {
			return got, nil
		}
	}
	return reply{}, fmt.Errorf("wait for a quorum: %w", context.Cause(ctx))
}

func replyFromProto(m *skerrypb.RankQuorumResponse) (reply, error) {
	if m.GetUnanswered() {
		return reply{Unanswered: true, Void: m.GetVoid()}, nil
	}
	q, err := wire.QuorumFromProto(m.GetQuorum())
	if err != nil {
		return reply{}, fmt.Errorf("read the manager's answer: %w", err)
	}
	return reply{Quorum: &q, Void: m.GetVoid()}, nil
}

// vote repeats a vote whose call broke, until ctx ends: the server keeps the
// decision.
func (r *remote) vote(ctx context.Context, v vote) (quorum.TallyResult, error) {
	m := wire.VoteToProto(v.RankVote)
	m.Attempt, m.Void = v.Attempt, v.Void
	out, err := r.client.Vote(ctx, m, grpc.WaitForReady(true))
	if err != nil && ctx.Err() != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.timeouts.Call)
		defer cancel()
		out, err = r.client.Vote(late, m)
	}
	if err != nil {
		return quorum.TallyResult{}, fromStatus(err)
	}
	return wire.TallyResultFromProto(out)
}

// redialPause is between two tries to subscribe.
const redialPause = 100 * time.Millisecond

// notices subscribes again whenever the stream breaks: what was missed meanwhile
// comes out in the next report or vote.
func (r *remote) notices(ctx context.Context, f func(notice)) error {
	for {
		if st, err := r.client.Notices(ctx, &skerrypb.NoticesRequest{GroupRank: uint32(r.rank)}); err == nil {
			r.read(st, f)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(redialPause):
		}
	}
}

func (r *remote) read(st grpc.ServerStreamingClient[skerrypb.RankNotice], f func(notice)) {
	for {
		m, err := st.Recv()
		if err != nil {
			return
		}
		if n, ok := noticeFromProto(m); ok {
			f(n)
		}
	}
}

// noticeFromProto converts and bounds m; ok is false for what it refuses.
func noticeFromProto(m *skerrypb.RankNotice) (notice, bool) {
	switch x := m.GetMessage().(type) {
	case *skerrypb.RankNotice_Hello:
		if x.Hello.GetGroupWorldSize() > wire.MaxGroupWorldSize {
			return notice{}, false
		}
		return notice{Hello: &rankHello{ReplicaID: x.Hello.GetReplicaId(),
			GroupWorldSize: int(x.Hello.GetGroupWorldSize())}}, true
	case *skerrypb.RankNotice_SiblingBroke:
		if x.SiblingBroke.GetGroupRank() > wire.MaxGroupWorldSize {
			return notice{}, false
		}
		return notice{Sibling: &siblingBroke{QuorumID: x.SiblingBroke.GetQuorumId(),
			GroupRank: int(x.SiblingBroke.GetGroupRank()), Cause: wire.Text(x.SiblingBroke.GetCause())}}, true
	}
	n, ok, err := wire.NoticeFromRank(m)
	return notice{Notice: n}, ok && err == nil
}
