package failover

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
)

// With all servers dead, training goes on; when they are back with their data,
// all killed by SIGKILL, the next joiner gets in, under a higher id.
func TestAllServersDieAndComeBack(t *testing.T) {
	t.Parallel()
	c := startServers(t, *timing)
	f := newFleet(t, c.voters(), 4)
	f.awaitMembers()
	f.awaitSteps(5)
	_, before := f.at()
	for i := range c.procs {
		c.kill(i)
	}
	f.awaitSteps(50)
	if _, now := f.at(); now != before {
		t.Errorf("quorum %d was formed while every server was dead", now)
	}
	for i := range c.args {
		c.start(i)
	}
	for i := range c.args {
		c.awaitServing(i)
	}
	f.add()
	f.awaitMembers()
	f.awaitSteps(5)
	if _, now := f.at(); now <= before {
		t.Errorf("quorum %d after %d, want a higher one with the joiner", now, before)
	}
	f.check()
}

// lone makes one call of a torchft job of its own.
func lone(ctx context.Context, c torchftpb.LighthouseServiceClient, id string) (int64, error) {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, wire.JobMetadata, "lone"), patience)
	defer cancel()
	resp, err := c.Quorum(ctx, &torchftpb.LighthouseQuorumRequest{Requester: &torchftpb.QuorumMember{
		ReplicaId: id, Address: "http://" + id, StoreAddress: id + ":1", WorldSize: 1}})
	return resp.GetQuorum().GetQuorumId(), err
}

func client(t *testing.T, addr string) torchftpb.LighthouseServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr,
		append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the test is over
	return torchftpb.NewLighthouseServiceClient(conn)
}

// A leader that is stopped through an election, and then continued, answers
// nobody with a quorum that another leader's has followed: not even a call that
// waited in its socket, at the moment when it still takes itself for the leader.
// No step is discarded, and its sessions go elsewhere within a second or so.
func TestStopTheLeader(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	c := startServers(t, *timing)
	f := newFleet(t, c.voters(), 4)
	f.awaitMembers()
	f.awaitSteps(5)
	leader := c.leader(-1)
	direct, forwarder := client(t, c.args[leader].Listen), client(t, c.forwarder())
	stale, err := lone(t.Context(), direct, "lone_0")
	if err != nil {
		t.Fatal(err)
	}
	c.stop(leader)
	stopped := time.Now()
	type answer struct {
		id  int64
		err error
	}
	buffered := make(chan answer, 1)
	go func() {
		id, err := lone(t.Context(), direct, "lone_0")
		buffered <- answer{id, err}
	}()
	c.leader(leader)
	t.Logf("another led after %v", time.Since(stopped).Round(time.Millisecond))
	newer := make(chan answer, 1)
	go func() {
		id, err := lone(t.Context(), forwarder, "lone_1")
		newer <- answer{id, err}
	}()
	var highest int64
	testkit.EventuallyNil(t, "another replica gets into the job", func() error {
		var err error
		if highest, err = lone(t.Context(), forwarder, "lone_0"); err == nil && highest <= stale {
			err = fmt.Errorf("quorum %d still", highest)
		}
		return err
	})
	if a := <-newer; a.err != nil {
		t.Fatal(a.err)
	}
	f.add()
	f.awaitMembers()
	f.awaitSteps(5)
	c.signal(leader, syscall.SIGCONT)
	if a := <-buffered; a.err == nil && a.id < highest {
		t.Errorf("the continued server answered with quorum %d, %d had been formed", a.id, highest)
	} else if a.err != nil && errors.Is(a.err, context.DeadlineExceeded) {
		t.Errorf("the continued server never answered: %v", a.err)
	}
	c.awaitServing(leader)
	f.awaitSteps(5)
	f.check()
}
