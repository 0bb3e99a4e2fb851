package lighthouse_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse/internal/network"
	"github.com/skerry-ft/skerry/quorum"
)

// patience bounds the calls and reads of these tests. It is long, because a failure is
// rare and a busy machine is not, and no longer than the StuckAfter of the rules.
const patience = 60 * time.Second

// dial connects to a server for the length of the test.
func dial(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn := connect(t, addr)
	t.Cleanup(func() { _ = conn.Close() }) // the test is over
	return conn
}

// connect is dial for who closes the connection.
func connect(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	options := append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("passthrough:///"+addr, append(options, network.DialOptions(networkOf(t))...)...)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// replica plays a manager's side of a session: it beats, and queues what it is
// told.
type replica struct {
	t       testing.TB
	id      quorum.ReplicaID
	welcome wire.Welcome
	stream  grpc.BidiStreamingClient[skerrypb.Up, skerrypb.Down]
	kill    context.CancelFunc
	down    chan *skerrypb.Down
	broke   chan error // the stream's end, once

	mu     sync.Mutex // guards sending
	left   bool       // said goodbye: nothing may be sent any more
	beat   quorum.Beat
	number uint64
}

// open opens a session and waits for the welcome. The replica beats until it
// is killed or the test ends.
func open(t testing.TB, conn *grpc.ClientConn, hello wire.Hello) (*replica, wire.Welcome) {
	t.Helper()
	r := rawOpen(t, conn)
	if err := r.greet(hello); err != nil {
		t.Fatal(err)
	}
	return r, r.welcome
}

// greet says hello and waits for the welcome. The replica beats from then on.
func (r *replica) greet(hello wire.Hello) error {
	r.id = hello.ReplicaID
	if hello.GroupWorldSize == 0 {
		hello.GroupWorldSize = 1
	}
	r.send(&skerrypb.Up{Message: &skerrypb.Up_Hello{Hello: wire.HelloToProto(hello)}})
	down, err := r.tryNext("the welcome", func(*skerrypb.Down) bool { return true })
	if err != nil {
		return err
	}
	if down.GetWelcome() == nil {
		return fmt.Errorf("%s: first message is %v, want a welcome", r.id, down)
	}
	if r.welcome, err = wire.WelcomeFromProto(down.GetWelcome()); err != nil {
		return err
	}
	r.start(func() { r.beats(r.welcome.BeatInterval) })
	return nil
}

// rawOpen opens a stream and says nothing.
func rawOpen(t testing.TB, conn *grpc.ClientConn) *replica {
	t.Helper()
	ctx, kill := context.WithCancel(context.Background())
	t.Cleanup(kill)
	stream, err := skerrypb.NewLighthouseClient(conn).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return receiving(t, stream, kill)
}

// receiving queues what a stream says.
func receiving(t testing.TB, stream grpc.BidiStreamingClient[skerrypb.Up, skerrypb.Down], kill context.CancelFunc) *replica {
	t.Helper()
	r := &replica{t: t, stream: stream, kill: kill, down: make(chan *skerrypb.Down, 4096), broke: make(chan error, 1)}
	r.start(func() {
		for {
			down, err := stream.Recv()
			if err != nil {
				r.broke <- err
				return
			}
			r.down <- down
		}
	})
	return r
}

// start runs f until it ends by itself, at the latest because the stream ends.
func (r *replica) start(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	r.t.Cleanup(func() {
		r.kill()
		<-done
	})
}

func (r *replica) beats(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-r.stream.Context().Done():
			return
		case <-tick.C:
			r.mu.Lock()
			r.beat.Progress++
			beat := wire.BeatToProto(r.beat)
			r.mu.Unlock()
			r.send(&skerrypb.Up{Message: &skerrypb.Up_Beat{Beat: beat}})
		}
	}
}

// send sends a message; a stream that has ended shows when it is read.
func (r *replica) send(up *skerrypb.Up) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.left {
		_ = r.stream.Send(up)
	}
}

// leave says goodbye and closes the stream behind it, as a manager that exits does.
func (r *replica) leave() {
	r.send(&skerrypb.Up{Message: &skerrypb.Up_Leaving{Leaving: &skerrypb.Leaving{}}})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = true
	_ = r.stream.CloseSend() // whether it has ended is seen when it is read
}

// join joins with a new number, and returns it.
func (r *replica) join(kind quorum.JoinKind, change func(*quorum.Join)) uint64 {
	r.number++
	j := quorum.Join{
		Member: quorum.Member{ReplicaID: r.id, Address: "http://127.0.0.1:1", StoreAddress: "127.0.0.1:2", GroupWorldSize: 1},
		Client: quorum.KindSkerry, Kind: kind, Number: r.number,
	}
	if change != nil {
		change(&j)
	}
	r.send(&skerrypb.Up{Message: &skerrypb.Up_Join{Join: wire.JoinToProto(j)}})
	return r.number
}

// next returns the next message that matches, and drops those before it.
func (r *replica) next(what string, match func(*skerrypb.Down) bool) *skerrypb.Down {
	r.t.Helper()
	down, err := r.tryNext(what, match)
	if err != nil {
		r.t.Fatal(err)
	}
	return down
}

// tryNext is next with an error.
func (r *replica) tryNext(what string, match func(*skerrypb.Down) bool) (*skerrypb.Down, error) {
	deadline := time.After(patience)
	for {
		select {
		case down := <-r.down:
			if match(down) {
				return down, nil
			}
		case err := <-r.broke:
			r.broke <- err
			if len(r.down) > 0 {
				continue // what came before the end counts
			}
			return nil, fmt.Errorf("%s: stream ended while waiting for %s: %w", r.id, what, err)
		case <-deadline:
			return nil, fmt.Errorf("%s: no %s within %v", r.id, what, patience)
		}
	}
}

// answer waits for the answer to a join.
func (r *replica) answer(number uint64) quorum.Quorum {
	r.t.Helper()
	q, err := r.tryAnswer(number)
	if err != nil {
		r.t.Fatal(err)
	}
	return q
}

// tryAnswer is answer with an error.
func (r *replica) tryAnswer(number uint64) (quorum.Quorum, error) {
	down, err := r.tryNext(fmt.Sprintf("answer to join %d", number), func(d *skerrypb.Down) bool {
		return d.GetRefused() != nil || d.GetAnswer().GetNumber() == number && d.GetAnswer() != nil
	})
	if err != nil {
		return quorum.Quorum{}, err
	}
	if refused := down.GetRefused(); refused != nil {
		return quorum.Quorum{}, fmt.Errorf("%s: join refused: %v", r.id, refused)
	}
	q, err := wire.AnswerFromProto(down.GetAnswer())
	if err != nil {
		return quorum.Quorum{}, err
	}
	r.mu.Lock()
	r.beat.QuorumID = q.ID
	r.mu.Unlock()
	return q, nil
}

// end waits for the stream's end and returns its error.
func (r *replica) end() error {
	r.t.Helper()
	select {
	case err := <-r.broke:
		r.broke <- err
		return err
	case <-time.After(patience):
		r.t.Fatalf("%s: stream still open after %v", r.id, patience)
		return nil
	}
}

func hello(id quorum.ReplicaID) wire.Hello {
	return wire.Hello{Job: "default", Hello: quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry}}
}

func memberIDs(q quorum.Quorum) []quorum.ReplicaID {
	var ids []quorum.ReplicaID
	for _, m := range q.Members {
		ids = append(ids, m.ReplicaID)
	}
	return ids
}
