package hostile

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// TestCrowdOfOneJob: who holds a job's join token, and has 6,000 replicas join with
// 16 KiB of data each, fills that job, and costs the others nothing.
func TestCrowdOfOneJob(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	const most, come = 128, 6_000
	c := guardtest.New(t)
	s := soleVictim(t, "--token-file", filepath.Join(c.Dir, "token"), "--max-replicas-per-job", fmt.Sprint(most))
	with := func(token guard.Secret) *grpc.ClientConn {
		g := guardtest.Open(t, guard.Options{Token: token})
		return connect(t, s.addr, append(g.DialOptions(guard.Party{Role: guard.Lighthouse}, ""), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	}
	beside := with(c.JoinToken(t, "beside"))
	token := c.JoinToken(t, "crowd")
	s.unmoved(t, func() error { return quorumOfOne(beside) }, func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var all sync.WaitGroup
		taken, refused := make(chan bool, come), make(chan error, come)
		const conns = 10
		for from := range conns {
			conn := with(token)
			all.Go(func() {
				for i := range come / conns {
					if err := crowd(ctx, conn, fmt.Sprintf("x%d-%d:1", from, i)); err != nil {
						refused <- err
					} else {
						taken <- true
					}
				}
			})
		}
		all.Wait()
		if len(taken) != most || len(refused) != come-most {
			t.Errorf("%d of %d taken, %d refused; want %d taken", len(taken), come, len(refused), most)
		}
		for range len(refused) {
			err := <-refused
			if !errors.Is(err, quorum.ErrFull) || !strings.Contains(err.Error(), fmt.Sprintf("want at most %d", most)) {
				t.Fatalf("refused by %v, want its number and the bound %d", err, most)
			}
		}
	})
}

// crowd opens a session, which lasts as long as ctx, and joins.
func crowd(ctx context.Context, conn *grpc.ClientConn, id string) error {
	stream, err := skerrypb.NewLighthouseClient(conn).Session(ctx)
	if err != nil {
		return err
	}
	hello := &skerrypb.SessionHello{Job: "crowd", ReplicaId: id, GroupWorldSize: 1, Position: &skerrypb.Position{}}
	if err := stream.Send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: hello}}); err != nil {
		return err
	}
	down, err := stream.Recv()
	if err != nil {
		return err
	}
	if r := down.GetRefused(); r != nil {
		return wire.RefusalError(r)
	}
	member := &skerrypb.Member{ReplicaId: id, Address: "http://h:1", StoreAddress: "s:1", GroupWorldSize: 1,
		Position: &skerrypb.Position{}, Data: strings.Repeat("x", wire.MaxDataBytes)}
	return stream.Send(&skerrypb.Up{Message: &skerrypb.Up_Join{Join: &skerrypb.Join{Member: member, Kind: skerrypb.JoinKind_JOIN_FALL, Number: 1, Fact: &skerrypb.Fact{}}}})
}

// trainerVictim is a replica that trains alone, in a process of its own, with the join
// token of its job; ask waits for its next step.
func trainerVictim(t *testing.T) (s *server, ask func() error) {
	t.Helper()
	if testing.Short() {
		t.Skip("a process and some seconds: not with -short")
	}
	c := guardtest.New(t)
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) { cfg.Guard.Token = c.Token })
	token := filepath.Join(t.TempDir(), "join")
	if err := guard.WriteSecret(token, c.JoinToken(t, wire.DefaultJob)); err != nil {
		t.Fatal(err)
	}
	s = &server{Program: testkit.Start(t, "trainer", []string{guard.EnvTokenFile + "=" + token}, builds.Path(t, "examples/digits/trainer"),
		"-lighthouse", l.Addr, "-index", "0", "-replicas", "1", "-steps", "1000000")}
	var step int64
	ask = func() error {
		for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
			st, err := l.Lighthouse.Status(t.Context())
			if err != nil || len(st.Jobs) == 0 || len(st.Jobs[0].Replicas) == 0 {
				continue
			}
			r := st.Jobs[0].Replicas[0]
			s.addr = strings.TrimPrefix(r.Address, "http://")
			if r.Step > step {
				step = r.Step
				return nil
			}
		}
		return errors.New("it trains no more")
	}
	return s, ask
}

// TestManagerPort: requests to a replica's manager whose end never comes, with false
// proofs and without, end by themselves, who floods it is cut, and it loses no step.
func TestManagerPort(t *testing.T) {
	t.Parallel()
	s, ask := trainerVictim(t)
	method := skerrypb.Manager_Quorum_FullMethodName
	id := func(i int) uint32 { return uint32(2*i + 1) }
	for name, next := range map[string]func(i int) []byte{
		"rapid reset":  func(i int) []byte { return append(headers(id(i), method), frame(3, 0, id(i), []byte{0, 0, 0, 8})...) },
		"mute streams": func(i int) []byte { return headers(id(i), method, guard.ProofMetadata, fresh()) },
		"references":   func(i int) []byte { return references(id(i), method) },
	} {
		t.Run(name, func(t *testing.T) {
			if name != "references" {
				testkit.Long(t)
			}
			s.unmoved(t, ask, func() {
				if !floodWith(t, s, nil, 50_000, next) {
					t.Error("it was not cut")
				}
			})
		})
	}
	s.unmoved(t, ask, func() {
		for _, announced := range []uint32{bombBytes, wire.MaxReportBytes} {
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(patience))
			if _, err := conn.Write(append([]byte(preface), frame(4, 0, 0, nil)...)); err != nil {
				t.Fatal(err)
			}
			const streams = 30
			ended := make(chan int, 1)
			go func() { ended <- endedStreams(conn, streams) }()
			for i := range streams {
				proof := []string{guard.ProofMetadata, fresh()}
				if i%2 == 1 {
					proof = nil
				}
				b := headers(id(i), method, proof...)
				b = append(b, frame(0, 0, id(i), binary.BigEndian.AppendUint32([]byte{0}, announced))...)
				if _, err := conn.Write(append(b, frame(0, 0, id(i), make([]byte, 1<<10))...)); err != nil {
					t.Fatalf("stream %d: %v", i, err)
				}
			}
			if n := <-ended; n != streams {
				t.Errorf("%d of %d requests that announce %d bytes were ended", n, streams, announced)
			}
			_ = conn.Close() // it has had its answers
		}
	})
}
