package failover

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
)

// askers is a job of torchft's clients, seen from the wire: each beats each
// 100 ms and asks every step, at one address.
type askers struct {
	t       *testing.T
	running sync.WaitGroup

	mu struct {
		sync.Mutex

		members map[int64]string
		newest  []int64 // by replica
		answers int
		slowest time.Duration
		wrong   []string
	}
}

// ask runs n of them until ctx ends.
func ask(ctx context.Context, t *testing.T, addr string, n int) *askers {
	t.Helper()
	a := &askers{t: t}
	a.mu.members, a.mu.newest = make(map[int64]string), make([]int64, n)
	conn, err := grpc.NewClient("passthrough:///"+addr,
		append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx = metadata.AppendToOutgoingContext(ctx, wire.JobMetadata, "torchft")
	client := torchftpb.NewLighthouseServiceClient(conn)
	for i := range n {
		id := fmt.Sprintf("torchft_%d", i)
		a.running.Go(func() { a.beat(ctx, client, id) })
		a.running.Go(func() { a.steps(ctx, client, i, id) })
	}
	t.Cleanup(func() {
		a.running.Wait()
		_ = conn.Close() // nobody uses it any more
	})
	return a
}

func (a *askers) beat(ctx context.Context, c torchftpb.LighthouseServiceClient, id string) {
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, patience)
		_, err := c.Heartbeat(call, &torchftpb.LighthouseHeartbeatRequest{ReplicaId: id})
		cancel()
		if err != nil && ctx.Err() == nil {
			a.broke("heartbeat of %s: %v", id, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (a *askers) steps(ctx context.Context, c torchftpb.LighthouseServiceClient, i int, id string) {
	for step := int64(0); ctx.Err() == nil; step++ {
		call, cancel := context.WithTimeout(ctx, patience)
		began := time.Now()
		resp, err := c.Quorum(call, &torchftpb.LighthouseQuorumRequest{Requester: &torchftpb.QuorumMember{
			ReplicaId: id, Address: "http://" + id, StoreAddress: id + ":1", Step: step, WorldSize: 1}})
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.broke("%s: step %d: %v", id, step, err)
			continue
		}
		a.answered(i, id, resp.GetQuorum(), time.Since(began))
		select {
		case <-ctx.Done():
		case <-time.After(stepTime):
		}
	}
}

func (a *askers) answered(i int, id string, q *torchftpb.Quorum, took time.Duration) {
	var ids []string
	for _, m := range q.GetParticipants() {
		ids = append(ids, m.GetReplicaId())
	}
	list := strings.Join(ids, " ")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.answers++
	a.mu.slowest = max(a.mu.slowest, took)
	if old, known := a.mu.members[q.GetQuorumId()]; known && old != list {
		a.mu.wrong = append(a.mu.wrong, fmt.Sprintf("quorum %d is %s, and %s", q.GetQuorumId(), old, list))
	}
	if q.GetQuorumId() < a.mu.newest[i] {
		a.mu.wrong = append(a.mu.wrong, fmt.Sprintf("%s: quorum %d after %d", id, q.GetQuorumId(), a.mu.newest[i]))
	}
	if !strings.Contains(list, id) {
		a.mu.wrong = append(a.mu.wrong, fmt.Sprintf("%s was answered with a quorum of %s", id, list))
	}
	a.mu.members[q.GetQuorumId()], a.mu.newest[i] = list, q.GetQuorumId()
}

func (a *askers) broke(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.wrong = append(a.mu.wrong, fmt.Sprintf(format, args...))
}

// check reports what went wrong, once all have ended.
func (a *askers) check() {
	a.t.Helper()
	a.running.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.mu.wrong {
		a.t.Errorf("torchft: %s", w)
	}
	a.t.Logf("torchft: %d answers in %d quorums, the slowest took %v", a.mu.answers, len(a.mu.members), a.mu.slowest)
}
