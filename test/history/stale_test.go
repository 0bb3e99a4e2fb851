package history

import (
	"context"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/quorum"
)

// slowLease is for how long a leader that is cut off goes on believing that it
// leads, while the others elect another one in half of that time.
const slowLease = 5 * time.Second

// quickElection is as long as the others wait for a leader: longer than the pauses
// between the slow leader's heartbeats, which are up to a fifth of its lease, or
// they would depose it before it is cut off.
const quickElection = slowLease / 4

// TestStaleLeader asks a leader that is cut off and does not know that another one
// has formed a quorum meanwhile. It must not tell its old one again. In a build
// without the fence it does, and the history shows it.
func TestStaleLeader(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for leases of five seconds to end, and leaders to be elected beside them")
	}
	t.Parallel()
	slow := [3]bool{true, true, false}
	s := startServers(t, 3, func(i int, c *lighthouse.Config) {
		c.Rules.MinReplicas, c.Rules.JoinTimeout = 3, 300*time.Millisecond // the first quorum is of all, however late one comes
		c.Raft.Heartbeat, c.Raft.Election, c.Raft.Lease = quickElection, quickElection, quickElection/2
		if slow[i] {
			c.Raft.Heartbeat, c.Raft.Election, c.Raft.Lease = slowLease, slowLease, slowLease
		}
	})
	s.waitLeader(-1)
	s.kill(2) // the one that is quick; one of the slow ones follows
	old := s.waitLeader(2)
	s.start(2)
	other := 1 - old // it must not hold the slow leader for alive either
	s.kill(other)
	slow[other] = false
	s.start(other)
	b := &book{began: time.Now()}
	first := asks(t, s, b, old, nil, "a", "b", "c")
	if len(first.Members) != 3 {
		t.Fatalf("the first quorum is %v", first)
	}
	s.all[old].SetAtLeast(t, minReplicas)
	s.partition(old, true)
	next := -1
	for end := time.Now().Add(20 * time.Second); ; <-time.After(5 * time.Millisecond) {
		if next = s.leads(2, other); next >= 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nobody follows the leader that is cut off")
		}
	}
	last := &quorum.LastAnswer{Cluster: first.Cluster, QuorumID: first.ID, Round: first.Round, Members: first.Members}
	if second := asks(t, s, b, next, last, "b", "c"); second.ID <= first.ID {
		t.Fatalf("the next quorum is %v", second)
	}
	stale := asks(t, s, b, old, nil, "a") // its answer was lost
	if got := judge(minReplicas, b.ops); got != want {
		t.Errorf("the history is %v, want %v; the old leader told %v", got, want, stale)
	}
}

// asks lets replicas join at a server, and returns the quorum that they were told
// of; an empty one if none was told in time.
func asks(t *testing.T, s *servers, b *book, server int, last *quorum.LastAnswer, ids ...string) quorum.Quorum {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	if last == nil && len(ids) == 1 {
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	}
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+s.addr(server), append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // nobody reads it
	var streams []grpc.BidiStreamingClient[skerrypb.Up, skerrypb.Down]
	called := b.now()
	for _, id := range ids {
		stream, err := skerrypb.NewLighthouseClient(conn).Session(ctx)
		if err != nil {
			t.Fatal(err)
		}
		h := wire.Hello{Job: "default", GroupWorldSize: 1, Hello: quorum.Hello{
			ReplicaID: quorum.ReplicaID(id), Client: quorum.KindSkerry, Last: last}}
		j := quorum.Join{
			Member: quorum.Member{ReplicaID: quorum.ReplicaID(id), Address: "http://127.0.0.1:1", StoreAddress: "127.0.0.1:2", GroupWorldSize: 1},
			Client: quorum.KindSkerry, Kind: quorum.JoinFall, Number: uint64(called), Last: last,
		}
		_ = stream.Send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: wire.HelloToProto(h)}}) // it shows when it is read
		_ = stream.Send(&skerrypb.Up{Message: &skerrypb.Up_Join{Join: wire.JoinToProto(j)}})
		streams = append(streams, stream)
	}
	var q quorum.Quorum
	for i, stream := range streams {
		for {
			d, err := stream.Recv()
			if err != nil {
				return q
			}
			if d.GetAnswer() == nil {
				continue
			}
			if q, err = wire.AnswerFromProto(d.GetAnswer()); err != nil {
				t.Fatal(err)
			}
			b.add(porcupine.Operation{ClientId: i, Input: input{who: ids[i]}, Output: outputOf(q), Call: called, Return: b.now()})
			break
		}
	}
	return q
}
