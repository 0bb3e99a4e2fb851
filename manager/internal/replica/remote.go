package replica

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/manager/internal/final"
	"github.com/skerry-ft/skerry/quorum"
)

// Remote is the link of the ranks other than 0. Safe for concurrent use.
type Remote struct {
	rank     int
	conn     *grpc.ClientConn
	client   skerrypb.ManagerClient
	timeouts Timeouts
	ended    atomic.Pointer[error] // why no call can succeed any more; nil: it may
}

// Pauses between two tries to call or to subscribe: fixed, and far below
// rankGrace, for a link that comes back must be found within it.
const (
	redialPause    = 20 * time.Millisecond
	maxRedialPause = 100 * time.Millisecond
)

// NewRemote prepares a link to the manager server at addr; the first call
// connects.
func NewRemote(g *guard.Guard, n Network, to guard.Party, addr string, rank int, t Timeouts) (*Remote, error) {
	conn, err := Dial(g, n, to, addr, grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           grpcbackoff.Config{BaseDelay: redialPause, Multiplier: 2, MaxDelay: maxRedialPause},
		MinConnectTimeout: t.Call,
	}))
	if err != nil {
		return nil, fmt.Errorf("dial the replica's manager at %s: %w", addr, err)
	}
	return &Remote{rank: rank, conn: conn, client: skerrypb.NewManagerClient(conn), timeouts: t}, nil
}

func (r *Remote) Close() error { return r.end(final.ErrClosed) }

// end ends all calls, those under way too, with err; the first one counts.
func (r *Remote) end(err error) error {
	if !r.ended.CompareAndSwap(nil, &err) {
		return nil
	}
	return r.conn.Close()
}

// repeat makes a call again whenever its connection breaks, until ctx ends or
// the server refuses. Every call of a rank is idempotent.
func (r *Remote) repeat(ctx context.Context, call func(context.Context) error) error {
	for {
		err := call(ctx)
		switch ended := r.ended.Load(); {
		case err == nil:
			return nil
		case ended != nil:
			return *ended
		case ctx.Err() != nil, !brokeOff(err):
			return FromStatus(err)
		}
		if backoff.Sleep(ctx, redialPause) != nil {
			return FromStatus(err)
		}
	}
}

// brokeOff says that a call ended without the server's word on it: its
// connection broke, or the server closed.
func brokeOff(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.Canceled
}

// late is the time for one last word after the caller's ctx has ended.
func (r *Remote) late(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), r.timeouts.Call)
}

func (r *Remote) Report(ctx context.Context, rep quorum.RankReport) (Reply, error) {
	m := wire.RankReportToProto(rep)
	var out *skerrypb.RankQuorumResponse
	call := func(ctx context.Context) (err error) {
		out, err = r.client.Quorum(ctx, m, grpc.WaitForReady(true))
		return err
	}
	err := r.repeat(ctx, call)
	if err == nil {
		return replyFromProto(out)
	}
	if ctx.Err() == nil {
		return Reply{}, err
	}
	// The claim must be back before the caller acts on not having an answer.
	late, cancel := r.late(ctx)
	defer cancel()
	m.Withdraw = true
	if err := r.repeat(late, call); err == nil {
		if got, err := replyFromProto(out); err == nil && got.Quorum != nil {
			return got, nil
		}
	}
	return Reply{}, fmt.Errorf("wait for a quorum: %w", context.Cause(ctx))
}

func (r *Remote) Away(ctx context.Context, away func() bool) {
	ctx, cancel := context.WithTimeout(ctx, r.timeouts.Call)
	defer cancel()
	_, _ = r.client.Quorum(ctx, &skerrypb.RankQuorumRequest{ // see link
		GroupRank: uint32(r.rank), Withdraw: true, Away: away(),
	}, grpc.WaitForReady(true))
}

func replyFromProto(m *skerrypb.RankQuorumResponse) (Reply, error) {
	if m.GetUnanswered() {
		return Reply{Unanswered: true, VoteFirst: m.GetVoteFirst(), Attempt: m.GetAttempt()}, nil
	}
	q, err := wire.QuorumFromProto(m.GetQuorum())
	if err != nil {
		return Reply{}, fmt.Errorf("read the manager's answer: %w", err)
	}
	return Reply{Quorum: &q, VoidAttempt: m.GetVoidAttempt(), Attempt: m.GetAttempt()}, nil
}

// Vote repeats a vote whose call broke, until ctx ends and once more after it:
// the server keeps the decision, and another rank may have committed by it.
func (r *Remote) Vote(ctx context.Context, v quorum.RankVote) (quorum.TallyResult, error) {
	m := wire.VoteToProto(v)
	var out *skerrypb.VoteResponse
	call := func(ctx context.Context) (err error) {
		out, err = r.client.Vote(ctx, m, grpc.WaitForReady(true))
		return err
	}
	err := r.repeat(ctx, call)
	if err != nil && ctx.Err() != nil {
		late, cancel := r.late(ctx)
		defer cancel()
		m.Last = true
		err = r.repeat(late, call)
	}
	if err != nil {
		return quorum.TallyResult{}, err
	}
	return wire.TallyResultFromProto(out)
}

// Sources implements link.
func (r *Remote) Sources(ctx context.Context) (quorum.Sources, error) {
	out, err := r.client.Sources(ctx, &skerrypb.SourcesRequest{GroupRank: uint32(r.rank)}, grpc.WaitForReady(true))
	if err != nil {
		return quorum.Sources{}, FromStatus(err)
	}
	return wire.SourcesFromProto(out.GetSources())
}

// Notices subscribes again whenever the stream breaks: what was missed meanwhile
// comes out in the next report or vote. When the server cannot be reached for
// rankGrace, or cannot be found for the Connect timeout, group rank 0 is gone.
func (r *Remote) Notices(ctx context.Context, f func(Notice)) error {
	since, patience, found := time.Now(), r.timeouts.Connect, false
	for {
		st, err := r.client.Notices(ctx, &skerrypb.NoticesRequest{GroupRank: uint32(r.rank)})
		opened, heard := err == nil, false
		if opened {
			heard, err = r.read(st, f)
		}
		if heard || opened && !found { // a server that ends each stream at once is not heard
			since, patience, found = time.Now(), rankGrace, true
		}
		switch err = FromStatus(err); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case final.Is(err):
		case time.Since(since) >= patience:
			// The cause is text: it may be a cancellation, but not of the caller's ctx.
			err = fmt.Errorf("%w: group rank 0: not reached for %v: %v: restart all ranks of the replica together",
				final.ErrRankLost, patience, err)
		default:
			err = nil
		}
		if err != nil {
			_ = r.end(err) // the connection is of no use
			return err
		}
		if err := backoff.Sleep(ctx, redialPause); err != nil {
			return err
		}
	}
}

// read passes notices on until the stream ends, and says whether any came.
func (r *Remote) read(st grpc.ServerStreamingClient[skerrypb.RankNotice], f func(Notice)) (heard bool, err error) {
	for {
		m, err := st.Recv()
		if err != nil {
			return heard, err
		}
		heard = true
		if n, ok := noticeFromProto(m); ok {
			f(n)
		}
	}
}

// noticeFromProto converts and bounds m; ok is false for what it refuses.
func noticeFromProto(m *skerrypb.RankNotice) (Notice, bool) {
	switch x := m.GetMessage().(type) {
	case *skerrypb.RankNotice_Hello:
		if x.Hello.GetGroupWorldSize() > wire.MaxGroupWorldSize {
			return Notice{}, false
		}
		return Notice{Hello: &RankHello{ReplicaID: x.Hello.GetReplicaId(),
			GroupWorldSize: int(x.Hello.GetGroupWorldSize())}}, true
	case *skerrypb.RankNotice_SiblingBroke:
		if x.SiblingBroke.GetGroupRank() > wire.MaxGroupWorldSize {
			return Notice{}, false
		}
		return Notice{Sibling: &SiblingBroke{QuorumID: x.SiblingBroke.GetQuorumId(),
			GroupRank: int(x.SiblingBroke.GetGroupRank()), Cause: wire.Text(x.SiblingBroke.GetCause())}}, true
	}
	n, ok, err := wire.NoticeFromRank(m)
	return Notice{Notice: n}, ok && err == nil
}
