package session

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/manager/internal/final"
	"github.com/skerry-ft/skerry/quorum"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of the tests; reaching it is a failure.
const patience = 30 * time.Second

// scripted is a lighthouse that says what a test tells it to: script gets each
// stream, numbered from 0.
type scripted struct {
	skerrypb.UnimplementedLighthouseServer

	script func(number int, st *scriptedStream) error

	mu struct {
		sync.Mutex

		streams int
	}
}

// scriptedStream is one stream of it; its helpers end the script by an error.
type scriptedStream struct {
	grpc.BidiStreamingServer[skerrypb.Up, skerrypb.Down]

	hello wire.Hello
}

func (s *scripted) Session(st grpc.BidiStreamingServer[skerrypb.Up, skerrypb.Down]) error {
	up, err := st.Recv()
	if err != nil {
		return err
	}
	hello, err := wire.HelloFromProto(up.GetHello())
	if err != nil {
		return err
	}
	s.mu.Lock()
	number := s.mu.streams
	s.mu.streams++
	s.mu.Unlock()
	return s.script(number, &scriptedStream{BidiStreamingServer: st, hello: hello})
}

func (st *scriptedStream) welcome() error {
	return st.Send(&skerrypb.Down{Message: &skerrypb.Down_Welcome{Welcome: wire.WelcomeToProto(wire.Welcome{
		Cluster: "test", Timing: wire.Timing{BeatInterval: 10 * time.Millisecond,
			HeartbeatTimeout: time.Second, JoinTimeout: time.Second},
	})}})
}

// await reads until want says yes.
func (st *scriptedStream) await(want func(*skerrypb.Up) bool) (*skerrypb.Up, error) {
	for {
		up, err := st.Recv()
		if err != nil || want(up) {
			return up, err
		}
	}
}

func (st *scriptedStream) answer(number uint64, id int64) error {
	q := quorum.Quorum{Cluster: "test", Job: "default", ID: id, Round: 1,
		Members:      []quorum.Member{{ReplicaID: "a:1", Address: "http://h:1", StoreAddress: "h:2", GroupWorldSize: 1}},
		Participants: []quorum.ReplicaID{"a:1"}}
	return st.Send(&skerrypb.Down{Message: &skerrypb.Down_Answer{Answer: &skerrypb.Answer{Number: number, Quorum: wire.QuorumToProto(q)}}})
}

func isJoin(up *skerrypb.Up) bool     { return up.GetJoin() != nil }
func isWithdraw(up *skerrypb.Up) bool { return up.GetWithdraw() != nil }

// testNet is the network of one test, in its bubble.
type testNet struct {
	t    *testing.T
	host *nettest.Host

	unused int // the last port at which nothing listens
}

func newNet(t *testing.T) *testNet {
	return &testNet{t: t, host: nettest.New().Host("all")}
}

// dial connects without TLS or token.
func (n *testNet) dial(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+addr, append(wire.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(n.host.Dial))...)
}

// dead is another address at which nothing listens.
func (n *testNet) dead() string {
	n.unused++
	return fmt.Sprintf("127.0.0.1:%d", n.unused)
}

// hung is the address of a server that is stopped: its system takes connections, and
// nothing is ever said on them.
func (n *testNet) hung() string {
	n.t.Helper()
	ln, err := n.host.Listen("127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}

// serveScript runs the lighthouse and gives its address.
func serveScript(n *testNet, script func(int, *scriptedStream) error) string {
	t := n.t
	t.Helper()
	ln, err := n.host.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rpc := grpc.NewServer(wire.ServerOptions()...)
	skerrypb.RegisterLighthouseServer(rpc, &scripted{script: script})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = rpc.Serve(ln)
	}()
	t.Cleanup(func() {
		rpc.Stop()
		<-done
	})
	return ln.Addr().String()
}

// runSession runs a session for the length of the test.
func runSession(n *testNet, tune func(*Config), addresses ...string) (*Session, <-chan error) {
	t := n.t
	t.Helper()
	s := aSession(n, tune, addresses...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- s.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return s, ended
}

// aSession is a session that nobody works yet.
func aSession(n *testNet, tune func(*Config), addresses ...string) *Session {
	cfg := Config{
		Hello: wire.Hello{Job: "default", Address: "http://h:1", StoreAddress: "h:2", GroupWorldSize: 1,
			Hello: quorum.Hello{ReplicaID: "a:1", Client: quorum.KindSkerry}},
		Addresses: addresses, DialTimeout: 5 * time.Second / 6, CallTimeout: 5 * time.Second / 6, Dial: n.dial, Log: zerolog.Nop(),
		Beat: func() quorum.Beat {
			return quorum.Beat{Position: quorum.Position{Cluster: "test", Step: 7, QuorumID: 3}}
		},
		Notice: func(quorum.Notice) {}, Found: func(string) {}, Lost: func(error) {},
	}
	if tune != nil {
		tune(&cfg)
	}
	return New(cfg)
}

func testJoin() quorum.Join {
	return quorum.Join{Client: quorum.KindSkerry, Kind: quorum.JoinFall, Member: quorum.Member{
		ReplicaID: "a:1", Address: "http://h:1", StoreAddress: "h:2", GroupWorldSize: 1}}
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A stream that breaks takes the join along; the next one brings the same join
// again, with what was said about it since.
func TestSessionResendsItsJoin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		first := make(chan struct{})
		addr := serveScript(n, func(number int, st *scriptedStream) error {
			if err := st.welcome(); err != nil {
				return err
			}
			up, err := st.await(isJoin)
			if err != nil {
				return err
			}
			if number == 0 {
				close(first)
				return errors.New("server goes down")
			}
			if up.GetJoin().GetNumber() != 1 || len(up.GetJoin().GetAccusations()) != 1 || len(st.hello.Accusations) != 1 {
				return st.answer(1, 666)
			}
			return errors.Join(st.answer(1, 5), waitGone(st))
		})
		s, _ := runSession(n, nil, addr)
		go func() {
			<-first
			s.Accuse(quorum.Accusation{By: "a:1", Against: "b:1", QuorumID: 4, Evidence: "link broke"})
		}()
		q, err := s.Join(limited(t), testJoin())
		if err != nil || q.ID != 5 {
			t.Errorf("join = quorum %d, %v; want 5: same number, accusation restated", q.ID, err)
		}
	})
}

// waitGone keeps a stream open until the client is gone.
func waitGone(st *scriptedStream) error {
	_, err := st.await(func(*skerrypb.Up) bool { return false })
	return err
}

// What was withdrawn is not answered any more, whatever the lighthouse says.
func TestSessionRefusesAnswersToWithdrawnJoins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		joined := make(chan struct{})
		addr := serveScript(n, func(_ int, st *scriptedStream) error {
			if err := st.welcome(); err != nil {
				return err
			}
			if _, err := st.await(isJoin); err != nil {
				return err
			}
			close(joined)
			if up, err := st.await(isWithdraw); err != nil || up.GetWithdraw().GetNumber() != 1 {
				return errors.Join(err, errors.New("want withdraw 1"))
			}
			up, err := st.await(isJoin)
			if err != nil {
				return err
			}
			return errors.Join(st.answer(1, 5), st.answer(0, 6), st.answer(up.GetJoin().GetNumber(), 7), waitGone(st))
		})
		s, _ := runSession(n, nil, addr)
		ctx, cancel := context.WithCancelCause(limited(t))
		unanswered := errors.New("unanswered")
		go func() {
			<-joined
			cancel(unanswered)
		}()
		if _, err := s.Join(ctx, testJoin()); !errors.Is(err, unanswered) || !errors.Is(err, ErrWithdrawn) {
			t.Errorf("first join: %v, want withdrawn as unanswered", err)
		}
		q, err := s.Join(limited(t), testJoin())
		if err != nil || q.ID != 7 {
			t.Errorf("second join = quorum %d, %v; want 7", q.ID, err)
		}
	})
}

func TestSessionTriesTheNextServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		dead := n.dead()
		addr := serveScript(n, func(_ int, st *scriptedStream) error {
			up, err := joinAfterWelcome(st)
			if err != nil {
				return err
			}
			return errors.Join(st.answer(up.GetJoin().GetNumber(), 5), waitGone(st))
		})
		s, _ := runSession(n, nil, dead, "http://"+addr)
		if q, err := s.Join(limited(t), testJoin()); err != nil || q.ID != 5 {
			t.Errorf("join = quorum %d, %v; want 5", q.ID, err)
		}
	})
}

func joinAfterWelcome(st *scriptedStream) (*skerrypb.Up, error) {
	if err := st.welcome(); err != nil {
		return nil, err
	}
	return st.await(isJoin)
}

// A server that takes the connection and says nothing is given up.
func TestSessionGivesUpASilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		silent := serveScript(n, func(_ int, st *scriptedStream) error { return waitGone(st) })
		addr := serveScript(n, func(_ int, st *scriptedStream) error {
			up, err := joinAfterWelcome(st)
			if err != nil {
				return err
			}
			return errors.Join(st.answer(up.GetJoin().GetNumber(), 5), waitGone(st))
		})
		s, _ := runSession(n, func(c *Config) { c.DialTimeout = 50 * time.Millisecond }, silent, addr)
		if q, err := s.Join(limited(t), testJoin()); err != nil || q.ID != 5 {
			t.Errorf("join = quorum %d, %v; want 5", q.ID, err)
		}
	})
}

func TestSessionEndsWhenRefusedForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		addr := serveScript(n, func(_ int, st *scriptedStream) error {
			return st.Send(&skerrypb.Down{Message: &skerrypb.Down_Refused{Refused: wire.RefusalOf(0, quorum.ErrNameInUse)}})
		})
		s, ended := runSession(n, nil, addr)
		if _, err := s.Join(limited(t), testJoin()); !errors.Is(err, final.ErrRefused) || !errors.Is(err, quorum.ErrNameInUse) {
			t.Errorf("join: %v, want refused, name in use", err)
		}
		if err := <-ended; !errors.Is(err, final.ErrRefused) {
			t.Errorf("run: %v, want refused", err)
		}
	})
}

// A refusal of one join leaves the session open.
func TestSessionPassesOnRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		addr := serveScript(n, func(_ int, st *scriptedStream) error {
			up, err := joinAfterWelcome(st)
			if err != nil {
				return err
			}
			refused := wire.RefusalOf(up.GetJoin().GetNumber(), quorum.ErrFull)
			if err := st.Send(&skerrypb.Down{Message: &skerrypb.Down_Refused{Refused: refused}}); err != nil {
				return err
			}
			if up, err = st.await(isJoin); err != nil {
				return err
			}
			return errors.Join(st.answer(up.GetJoin().GetNumber(), 5), waitGone(st))
		})
		s, _ := runSession(n, nil, addr)
		if _, err := s.Join(limited(t), testJoin()); !errors.Is(err, quorum.ErrFull) || final.Is(err) {
			t.Errorf("first join: %v, want full, and not for good", err)
		}
		if q, err := s.Join(limited(t), testJoin()); err != nil || q.ID != 5 {
			t.Errorf("second join = quorum %d, %v; want 5", q.ID, err)
		}
	})
}

func TestSessionBeatsAnswersProbesAndPassesNotices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		checked := make(chan error, 1)
		addr := serveScript(n, func(_ int, st *scriptedStream) error {
			err := func() error {
				if err := st.welcome(); err != nil {
					return err
				}
				up, err := st.await(func(up *skerrypb.Up) bool { return up.GetBeat() != nil })
				if err != nil {
					return err
				}
				if b, err := wire.BeatFromProto(up.GetBeat()); err != nil || b.Position.Step != 7 || st.hello.Position.Step != 7 {
					return errors.Join(err, errors.New("want step 7 in beat and hello"))
				}
				probe := wire.NoticeToProto(quorum.Notice{Kind: quorum.NoticeProbe, Number: 9})
				lost := wire.NoticeToProto(quorum.Notice{Kind: quorum.NoticeLost, QuorumID: 3, About: "b:1", Reason: "dead"})
				if err := errors.Join(st.Send(probe), st.Send(lost)); err != nil {
					return err
				}
				up, err = st.await(func(up *skerrypb.Up) bool { return up.GetProbeReply() != nil })
				if err == nil && up.GetProbeReply().GetNumber() != 9 {
					err = errors.New("want reply 9")
				}
				return err
			}()
			checked <- err
			return waitGone(st)
		})
		noticed := make(chan quorum.Notice, 1)
		runSession(n, func(c *Config) { c.Notice = func(n quorum.Notice) { noticed <- n } }, addr)
		select {
		case err := <-checked:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("the script does not end")
		}
		if n := <-noticed; n.Kind != quorum.NoticeLost || n.About != "b:1" {
			t.Errorf("notice %+v, want b:1 lost", n)
		}
	})
}

// What a lighthouse sends is bounded: nonsense ends the stream, and a new one
// is tried.
func TestSessionDropsAStreamOfNonsense(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		addr := serveScript(n, func(number int, st *scriptedStream) error {
			up, err := joinAfterWelcome(st)
			if err != nil {
				return err
			}
			if number == 0 {
				bad := &skerrypb.Answer{Number: 1, Quorum: &skerrypb.Quorum{Id: -1, Reason: strings.Repeat("x", 1<<20)}}
				return errors.Join(st.Send(&skerrypb.Down{Message: &skerrypb.Down_Answer{Answer: bad}}), waitGone(st))
			}
			return errors.Join(st.answer(up.GetJoin().GetNumber(), 5), waitGone(st))
		})
		s, _ := runSession(n, nil, addr)
		if q, err := s.Join(limited(t), testJoin()); err != nil || q.ID != 5 {
			t.Errorf("join = quorum %d, %v; want 5", q.ID, err)
		}
	})
}

// The goodbye is heard, however soon the replica is gone after it: nothing
// follows it on the stream, and no other stream is opened.
func TestGoodbyeIsHeard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		const exits = 100
		heard := make(chan string, exits)
		addr := serveScript(n, func(_ int, st *scriptedStream) error {
			if err := st.welcome(); err != nil {
				return err
			}
			said := "nothing"
			for {
				up, err := st.Recv()
				if err != nil {
					heard <- said
					return nil
				}
				switch {
				case up.GetLeaving() != nil:
					said = "goodbye"
				case said == "goodbye":
					said = fmt.Sprintf("%T after the goodbye", up.GetMessage())
				}
			}
		})
		for range exits {
			opened := make(chan struct{})
			s := aSession(n, func(cfg *Config) {
				cfg.Found = func(string) { close(opened) }
			}, addr)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = s.Run(ctx) // ends with ctx
			}()
			<-opened
			s.Leave("", patience)
			s.queueBeat()
			cancel()
			<-ended
			if said := <-heard; said != "goodbye" {
				t.Errorf("the lighthouse heard %s, want the goodbye", said)
			}
		}
	})
}

// A goodbye for which there is nobody left to hear it is not waited for: a session
// that has ended, and one that ends meanwhile. (Each trainer that was told to end
// took a second for it, and the next one was told after that.)
func TestNoGoodbyeAfterTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t)
		hang := make(chan struct{})
		defer close(hang)
		addr := serveScript(n, func(_ int, st *scriptedStream) error {
			if err := st.welcome(); err != nil {
				return err
			}
			<-hang // it reads nothing, and ends nothing
			return nil
		})
		for _, first := range []string{"the session ends", "the goodbye begins"} {
			opened := make(chan struct{})
			s := aSession(n, func(cfg *Config) {
				cfg.Found = func(string) { close(opened) }
			}, addr)
			ctx, cancel := context.WithCancel(t.Context())
			ended, left := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				_ = s.Run(ctx) // ends with ctx
			}()
			<-opened
			goodbye := func() {
				defer close(left)
				s.Leave("", 10*patience)
			}
			if first == "the goodbye begins" {
				go goodbye()
				for soon := limited(t); !s.hasLeft() && soon.Err() == nil; {
					runtime.Gosched()
				}
			}
			cancel()
			<-ended
			if first == "the session ends" {
				go goodbye()
			}
			select {
			case <-left:
			case <-time.After(patience):
				t.Errorf("when %s first, the goodbye is waited for", first)
			}
		}
	})
}
