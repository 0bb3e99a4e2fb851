package trainers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// member is one replica. It is owned by its job's goroutine, but for read.
type member struct {
	id     quorum.ReplicaID
	stream grpc.BidiStreamingClient[skerrypb.Up, skerrypb.Down]
	cancel context.CancelFunc // breaks the stream, as a death does
	rank   quorum.Rank
	polls  *quorum.Polls
	number uint64 // of its newest join
	joined bool   // waits for its answer
	asks   bool   // its last step ended with a change wanted
	moves  uint64

	usual, own, wait time.Duration // of a step: at its begin, and as of late
}

// said is what the lighthouse said to a member, or why its stream ended.
type said struct {
	to   *member
	down *skerrypb.Down
	err  error
}

const (
	address = "http://127.0.0.1:29500"
	store   = "127.0.0.1:29501"
)

// openSession opens the session of a replica that has just started.
func openSession(ctx context.Context, conn *grpc.ClientConn, job string, id quorum.ReplicaID) (*member, error) {
	m := &member{id: id, rank: quorum.NewRank(quorum.RankConfig{GroupWorldSize: 1, MinReplicas: 1}), polls: quorum.NewPolls(1)}
	ctx, m.cancel = context.WithCancel(ctx)
	var err error
	if m.stream, err = skerrypb.NewLighthouseClient(conn).Session(ctx); err != nil {
		m.cancel()
		return nil, err
	}
	hello := wire.HelloToProto(wire.Hello{
		Job: job, Address: address, StoreAddress: store, GroupWorldSize: 1,
		Hello: quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry},
	})
	if err := m.send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: hello}}); err != nil {
		m.cancel()
		return nil, err
	}
	return m, nil
}

// welcomed waits for the welcome.
func (m *member) welcomed() (*skerrypb.Welcome, error) {
	down, err := m.stream.Recv()
	if err == nil && down.GetWelcome() == nil {
		err = fmt.Errorf("got %v, want a welcome", down)
	}
	if err != nil {
		return nil, fmt.Errorf("open the session of %s: %w", m.id, err)
	}
	return down.GetWelcome(), nil
}

// read hands on what the lighthouse says, until the stream ends.
func (m *member) read(ctx context.Context, to chan<- said) {
	for {
		down, err := m.stream.Recv()
		select {
		case to <- said{m, down, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (m *member) send(up *skerrypb.Up) error {
	if err := m.stream.Send(up); err != nil && !errors.Is(err, io.EOF) { // at the end read has the cause
		return fmt.Errorf("%s: %w", m.id, err)
	}
	return nil
}

// join says what the member knows, and that it wants to be in the next quorum.
func (m *member) join() error {
	self := quorum.Member{ReplicaID: m.id, Address: address, StoreAddress: store, GroupWorldSize: 1}
	j, err := quorum.MergeReports(self, []quorum.RankReport{m.rank.Report(quorum.ReportOptions{Sync: m.rank.Syncs()})})
	if err != nil {
		return fmt.Errorf("%s: %w", m.id, err)
	}
	m.number++
	m.joined, m.asks = true, false
	j.Number, j.Last = m.number, m.rank.LastAnswer()
	return m.send(&skerrypb.Up{Message: &skerrypb.Up_Join{Join: wire.JoinToProto(j)}})
}

// accuse says that the link to another member broke.
func (m *member) accuse(against quorum.ReplicaID) error {
	return m.send(&skerrypb.Up{Message: &skerrypb.Up_Accuse{Accuse: wire.AccusationToProto(quorum.Accusation{
		By: m.id, Against: against, QuorumID: m.rank.QuorumID(), Evidence: "connection reset by peer"})}})
}

// beat says that the member lives.
func (m *member) beat() error {
	b := quorum.Beat{
		Position: m.rank.Position(), QuorumID: m.rank.QuorumID(), Ballots: m.rank.Ballots(), Phase: quorum.PhaseTraining,
		Progress: m.moves, Waits: m.joined, Own: m.own, Wait: m.wait,
	}
	if m.joined {
		b.Phase = quorum.PhaseJoining
	}
	return m.send(&skerrypb.Up{Message: &skerrypb.Up_Beat{Beat: wire.BeatToProto(b)}})
}

// take takes up the answer to its join, and heals at once if it is to.
func (m *member) take(a *skerrypb.Answer, donor func(quorum.ReplicaID) *member) error {
	if a.GetNumber() != m.number {
		return nil // of an older one, or the last told again
	}
	q, err := wire.AnswerFromProto(a)
	if err != nil {
		return err
	}
	if _, err := m.rank.Take(m.id, &q, 0); err != nil {
		return fmt.Errorf("%s: %w", m.id, err)
	}
	m.joined = false
	if !m.rank.Configured() {
		return nil // it fell meanwhile: there is a need for the next
	}
	if s := m.rank.Assignment(); s.Heal {
		if len(s.Sources) == 0 {
			return fmt.Errorf("%s is to heal, and no source is named", m.id)
		}
		from := donor(s.Sources[0].ReplicaID)
		if from == nil {
			return fmt.Errorf("%s is to heal from %s, which is no member", m.id, s.Sources[0].ReplicaID)
		}
		m.rank.Healed(s.Max, from.rank.Batches(), from.rank.Digest())
	}
	m.rank.Fulfil()
	return nil
}
