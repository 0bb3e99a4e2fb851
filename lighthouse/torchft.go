package lighthouse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse/internal/answer"
	"github.com/skerry-ft/skerry/quorum"
)

// torchftService is torchft's LighthouseService.
type torchftService struct {
	torchftpb.UnimplementedLighthouseServiceServer
	server *Server
}

// maxAskers bounds the calls of one replica that wait at one time. Its client
// has one; a few more are left from calls that it gave up without our hearing.
const maxAskers = 8

// errOvertaken ends the oldest of too many calls of one replica.
var errOvertaken = fmt.Errorf("%w: more than %d calls of this replica wait", quorum.ErrStaleJoin, maxAskers)

// asker is one call of a torchft client that waits for a quorum.
type asker struct {
	number uint64
	extra  []byte                 // what its member says beyond our words
	size   int                    // of that, and of the member's data
	answer chan *torchftpb.Quorum // capacity 1: it is answered once
	refuse chan error             // capacity 1, likewise
}

// Quorum joins, and returns the first quorum that answers the join. It blocks
// until then; the caller's deadline or cancellation takes the join back. Over
// a change of leader forwardUnary calls it again, here or at the next leader.
func (t *torchftService) Quorum(ctx context.Context, req *torchftpb.LighthouseQuorumRequest) (*torchftpb.LighthouseQuorumResponse, error) {
	resp, err := t.quorum(ctx, req)
	t.server.noteRefused(req.GetRequester().GetReplicaId(), err)
	return resp, err
}

func (t *torchftService) quorum(ctx context.Context, req *torchftpb.LighthouseQuorumRequest) (*torchftpb.LighthouseQuorumResponse, error) {
	if req.GetRequester() == nil {
		return nil, status.Error(codes.InvalidArgument, "requester is missing")
	}
	member, err := wire.MemberFromTorchft(req.GetRequester())
	if err != nil {
		return nil, wire.StatusError(err)
	}
	extra, err := wire.ExtraFromTorchft(req.GetRequester())
	if err != nil {
		return nil, wire.StatusError(err)
	}
	for {
		lead, err := t.server.leadership(ctx)
		if err != nil {
			return nil, wire.StatusError(err)
		}
		q, err := t.ask(ctx, lead, member, extra)
		switch {
		case err == nil:
			return &torchftpb.LighthouseQuorumResponse{Quorum: q}, nil
		case errors.Is(err, errRestarted):
			_ = backoff.Sleep(ctx, restartPause) // the next wait finds that ctx has ended
		default:
			return nil, wire.StatusError(err)
		}
	}
}

// restartPause is how long a call waits before it joins a job that began anew:
// if the ledger refuses what the rules decide, they try again at this pace.
const restartPause = 100 * time.Millisecond

// Heartbeat notes that a replica is alive.
func (t *torchftService) Heartbeat(ctx context.Context, req *torchftpb.LighthouseHeartbeatRequest) (*torchftpb.LighthouseHeartbeatResponse, error) {
	id, err := wire.CheckReplicaID(req.GetReplicaId())
	if err != nil {
		return nil, wire.StatusError(err)
	}
	lead, err := t.server.leadership(ctx)
	if err != nil {
		return nil, wire.StatusError(err)
	}
	j, err := lead.torchftJob(ctx, id)
	if err != nil {
		return nil, wire.StatusError(err)
	}
	var refused error
	err = j.note(ctx, func(now time.Time) { refused = j.machine.Heartbeat(now, id) })
	return &torchftpb.LighthouseHeartbeatResponse{}, wire.StatusError(errors.Join(err, refused))
}

// torchftJob finds a caller's job: the one its metadata names, or the part of
// its id before the first slash if there is such a job, or the default.
func (l *leadership) torchftJob(ctx context.Context, id quorum.ReplicaID) (*job, error) {
	if named := metadata.ValueFromIncomingContext(ctx, wire.JobMetadata); len(named) > 0 {
		name, err := wire.CheckJob(named[0])
		if err != nil {
			return nil, err
		}
		return l.job(ctx, name, quorum.KindTorchft)
	}
	if name, ok := wire.JobPrefix(id); ok {
		if j, ok := l.known(name); ok {
			return j, nil
		}
	}
	return l.job(ctx, wire.DefaultJob, quorum.KindTorchft)
}

// ask joins once and waits for the answer of this leader.
func (t *torchftService) ask(ctx context.Context, l *leadership, member quorum.Member, extra []byte) (*torchftpb.Quorum, error) {
	j, err := l.torchftJob(ctx, member.ReplicaID)
	if err != nil {
		return nil, err
	}
	a := &asker{extra: extra, size: len(extra) + len(member.Data), answer: make(chan *torchftpb.Quorum, 1), refuse: make(chan error, 1)}
	var refused error
	err = j.do(ctx, func(now time.Time) { refused = j.askJoin(now, member, a) })
	if err = errors.Join(err, refused); err != nil {
		return nil, err
	}
	select { // a job that ends refuses all who wait
	case q := <-a.answer:
		return q, nil
	case err := <-a.refuse:
		return nil, err
	case <-ctx.Done():
		// The join must not outlive its caller; the leadership's end ends this call too.
		_ = j.do(context.WithoutCancel(ctx), func(now time.Time) { j.askEnded(now, member.ReplicaID, a) })
		return nil, context.Cause(ctx)
	}
}

// askJoin gives the join to the rules, on the job's goroutine.
func (j *job) askJoin(now time.Time, member quorum.Member, a *asker) error {
	if err := j.roomFor(a); err != nil {
		return err
	}
	j.number++
	a.number = j.number
	err := j.machine.Join(now, quorum.Join{
		Member: member, Client: quorum.KindTorchft, Kind: quorum.JoinStep, Number: a.number,
	})
	j.leadership.server.metrics.Joined(quorum.JoinStep, err)
	if err != nil {
		return err
	}
	j.joinedAs(now, quorum.KindTorchft)
	waiting := append(j.askers[member.ReplicaID], a)
	if len(waiting) > maxAskers {
		waiting[0].refuse <- errOvertaken
		waiting = waiting[1:]
	}
	j.askers[member.ReplicaID] = waiting
	return nil
}

// What members say in a join beyond a few addresses is held until the quorum is
// formed, and sent to each of them: together it must fit in one answer. Small joins
// are not counted: there may be wire.MaxMembers of them.
const (
	smallJoin = 1 << 10
	maxAsked  = wire.MaxMessageBytes - wire.MaxMembers*smallJoin
)

// roomFor refuses a join if there is no room left for what its member says.
func (j *job) roomFor(a *asker) error {
	if a.size <= smallJoin {
		return nil
	}
	total := a.size
	for _, all := range j.askers {
		for _, other := range all {
			total += other.size
		}
	}
	if total > maxAsked {
		return fmt.Errorf("%w: data and reconfigure_handles of the job's members have %d bytes, want at most %d",
			quorum.ErrFull, total, maxAsked)
	}
	return nil
}

// askEnded takes back the join of a caller who has gone.
func (j *job) askEnded(now time.Time, id quorum.ReplicaID, a *asker) {
	rest := slices.DeleteFunc(j.askers[id], func(o *asker) bool { return o == a })
	j.keepAskers(id, rest)
	j.machine.Withdraw(now, id, a.number) // a later call's join has another number
}

// answerAskers answers the calls whose join, or an earlier one of the same
// replica, is answered.
func (j *job) answerAskers(to quorum.Answered, shared *answer.Answer) {
	var rest []*asker
	for _, a := range j.askers[to.ReplicaID] {
		if a.number <= to.Number {
			a.answer <- shared.Torchft()
		} else {
			rest = append(rest, a)
		}
	}
	j.keepAskers(to.ReplicaID, rest)
}

// refuseAskers ends all calls of a replica with err.
func (j *job) refuseAskers(id quorum.ReplicaID, err error) {
	for _, a := range j.askers[id] {
		a.refuse <- err
	}
	delete(j.askers, id)
}

// extra is what a replica said beyond our words in the newest of its calls.
func (j *job) extra(id quorum.ReplicaID) []byte {
	if all := j.askers[id]; len(all) > 0 {
		return all[len(all)-1].extra
	}
	return nil
}

func (j *job) keepAskers(id quorum.ReplicaID, rest []*asker) {
	if len(rest) == 0 {
		delete(j.askers, id)
		return
	}
	j.askers[id] = rest
}

// torchftTimeout says that a deadline has passed in the code and the words of
// torchft's own server, which its clients may match. Most times their own timer is
// first, and says the same.
func torchftTimeout(err error) error {
	if status.Code(err) == codes.DeadlineExceeded {
		return status.Error(codes.Canceled, "Timeout expired")
	}
	return err
}
