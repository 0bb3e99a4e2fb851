package manager

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// fakeLighthouse serves Session with the real rules, from memory: the machine
// under one lock, and a timer for its Wake. It can be taken away and brought
// back, and can lose sight of single replicas.
type fakeLighthouse struct {
	skerrypb.UnimplementedLighthouseServer

	host   *nettest.Host // nil: the kernel's
	addr   string
	config quorum.Config
	views  bool // answers as a lighthouse does in a quorum whose list is too long for everybody

	mu struct {
		sync.Mutex

		rpc     *grpc.Server
		machine *quorum.Machine
		streams map[quorum.ReplicaID]*fakeStream
		blocked map[quorum.ReplicaID]bool
		timer   *time.Timer
		token   uint64
		hellos  int
		away    bool
		log     []string
	}
}

type fakeStream struct {
	out    chan *skerrypb.Down
	cancel context.CancelFunc
}

// testRules are quick, and patient enough for a busy machine.
func testRules() quorum.Config {
	c := quorum.DefaultConfig()
	c.HeartbeatTimeout, c.SuspectAfter, c.Grace = time.Second, 600*time.Millisecond, time.Second
	c.JoinTimeout = 3 * time.Second
	return c
}

func newFakeLighthouse(t testing.TB, host *nettest.Host, c quorum.Config) *fakeLighthouse {
	t.Helper()
	l := &fakeLighthouse{host: host, config: c, addr: "127.0.0.1:29510"}
	if host == nil {
		l.addr = portlease.ForTest(t, 1)[0] // nothing else gets it while the lighthouse is away
	}
	l.mu.machine = quorum.New(time.Now(), c, quorum.Ledger{Cluster: "test", Job: "default", HighestID: 100})
	l.mu.streams = make(map[quorum.ReplicaID]*fakeStream)
	l.mu.blocked = make(map[quorum.ReplicaID]bool)
	l.start(t)
	t.Cleanup(l.stop)
	return l
}

// start listens, again at the same address.
func (l *fakeLighthouse) start(t testing.TB) {
	t.Helper()
	listen := func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	if l.host != nil {
		listen = l.host.Listen
	}
	ln, err := listen(l.addr)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	rpc := grpc.NewServer(wire.ServerOptions()...)
	skerrypb.RegisterLighthouseServer(rpc, l)
	l.mu.Lock()
	l.mu.rpc = rpc
	l.mu.away = false
	l.mu.Unlock()
	go rpc.Serve(ln) //nolint:errcheck // stop ends it
}

// stop ends all sessions; the machine stays as it is.
func (l *fakeLighthouse) stop() {
	l.mu.Lock()
	rpc := l.mu.rpc
	l.mu.away = true
	if l.mu.timer != nil {
		l.mu.timer.Stop()
	}
	l.mu.Unlock()
	rpc.Stop()
}

// returnAsNewLeader serves again, with a machine rebuilt from the ledger.
func (l *fakeLighthouse) returnAsNewLeader(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	l.mu.machine = quorum.New(time.Now(), l.config, l.mu.machine.Ledger())
	l.mu.Unlock()
	l.start(t)
}

// block makes the lighthouse lose a replica, until unblock.
func (l *fakeLighthouse) block(id string, blocked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.blocked[quorum.ReplicaID(id)] = blocked
	if s := l.mu.streams[quorum.ReplicaID(id)]; s != nil && blocked {
		s.cancel()
	}
}

// status is what the lighthouse knows of the replica of that name.
func (l *fakeLighthouse) status(name string) quorum.ReplicaStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.mu.machine.Status(time.Now()).Replicas {
		if strings.HasPrefix(string(r.ReplicaID), name+":") {
			return r
		}
	}
	return quorum.ReplicaStatus{}
}

// Drain implements skerrypb.LighthouseServer.
func (l *fakeLighthouse) Drain(_ context.Context, m *skerrypb.DrainRequest) (*skerrypb.DrainResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := quorum.ReplicaID(m.GetReplicaId())
	err := l.mu.machine.Drain(time.Now(), id, m.GetReason())
	l.stepLocked()
	return &skerrypb.DrainResponse{Alone: l.mu.machine.Alone(time.Now(), id)}, wire.StatusError(err)
}

// Info implements skerrypb.LighthouseServer.
func (l *fakeLighthouse) Info(context.Context, *skerrypb.InfoRequest) (*skerrypb.InfoResponse, error) {
	return &skerrypb.InfoResponse{Cluster: "test"}, nil
}

// Evict implements skerrypb.LighthouseServer.
func (l *fakeLighthouse) Evict(_ context.Context, m *skerrypb.EvictRequest) (*skerrypb.EvictResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.mu.machine.Evict(time.Now(), quorum.ReplicaID(m.GetReplicaId()), m.GetReason())
	l.stepLocked()
	return &skerrypb.EvictResponse{}, wire.StatusError(err)
}

// Session implements skerrypb.LighthouseServer.
func (l *fakeLighthouse) Session(st grpc.BidiStreamingServer[skerrypb.Up, skerrypb.Down]) error {
	up, err := st.Recv()
	if err != nil {
		return err
	}
	hello, err := wire.HelloFromProto(up.GetHello())
	if err != nil {
		return wire.StatusError(err)
	}
	ctx, cancel := context.WithCancel(st.Context())
	defer cancel()
	s := &fakeStream{out: make(chan *skerrypb.Down, 4096), cancel: cancel}
	if err := l.open(hello, s); err != nil {
		if errors.Is(err, errBlocked) {
			return status.Error(codes.Unavailable, err.Error())
		}
		return st.Send(&skerrypb.Down{Message: &skerrypb.Down_Refused{Refused: wire.RefusalOf(0, err)}})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			up, err := st.Recv()
			if err != nil || l.receive(ctx, hello.ReplicaID, up) != nil {
				cancel()
				return
			}
		}
	}()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case down := <-s.out:
			if st.Send(down) != nil {
				cancel()
			}
		}
	}
	l.broken(hello.ReplicaID, s)
	return nil
}

var errBlocked = errors.New("blocked")

func (l *fakeLighthouse) open(h wire.Hello, s *fakeStream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.blocked[h.ReplicaID] || l.mu.away {
		return errBlocked
	}
	if err := l.mu.machine.Open(time.Now(), h.Hello); err != nil {
		return err
	}
	l.mu.hellos++
	l.mu.streams[h.ReplicaID] = s
	s.out <- &skerrypb.Down{Message: &skerrypb.Down_Welcome{Welcome: wire.WelcomeToProto(wire.Welcome{
		Cluster: "test", Servers: []string{l.addr},
		Timing: wire.Timing{BeatInterval: 20 * time.Millisecond, HeartbeatTimeout: l.config.HeartbeatTimeout,
			JoinTimeout: l.config.JoinTimeout},
		Sources: l.mu.machine.Sources(time.Now(), h.ReplicaID, h.Position),
	})}}
	l.stepLocked()
	return nil
}

func (l *fakeLighthouse) broken(id quorum.ReplicaID, s *fakeStream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.streams[id] != s {
		return
	}
	delete(l.mu.streams, id)
	if !l.mu.away {
		l.mu.machine.Broken(time.Now(), id, "stream broke", false)
		l.stepLocked()
	}
}

func (l *fakeLighthouse) receive(ctx context.Context, id quorum.ReplicaID, up *skerrypb.Up) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil || l.mu.away {
		return errBlocked
	}
	now, m := time.Now(), l.mu.machine
	switch x := up.GetMessage().(type) {
	case *skerrypb.Up_Beat:
		b, err := wire.BeatFromProto(x.Beat)
		if err != nil {
			return err
		}
		_ = m.Beat(now, id, b) // a stale one says nothing
	case *skerrypb.Up_Join:
		j, err := wire.JoinFromProto(x.Join)
		if err != nil {
			return err
		}
		if err := m.Join(now, j); err != nil {
			l.sendLocked(id, &skerrypb.Down{Message: &skerrypb.Down_Refused{Refused: wire.RefusalOf(j.Number, err)}})
		}
	case *skerrypb.Up_Withdraw:
		m.Withdraw(now, id, x.Withdraw.GetNumber())
	case *skerrypb.Up_Link:
		r, err := wire.LinkReportFromProto(id, x.Link)
		if err != nil {
			return err
		}
		_ = m.Link(now, r) // about one that is gone
	case *skerrypb.Up_Accuse:
		a, err := wire.AccusationFromProto(x.Accuse)
		if err != nil {
			return err
		}
		_ = m.Accuse(now, a) // of an older quorum
	case *skerrypb.Up_ProbeReply:
		m.Reply(now, id, x.ProbeReply.GetNumber())
	case *skerrypb.Up_Leaving:
		m.Leave(now, id, x.Leaving.GetWhy())
	}
	l.stepLocked()
	return nil
}

// lateTimer is how late a timer may be before the lighthouse doubts itself.
const lateTimer = 50 * time.Millisecond

// stepLocked pushes, decides, answers, and sets the timer: the whole shell.
func (l *fakeLighthouse) stepLocked() {
	m := l.mu.machine
	for {
		now := time.Now()
		d := m.Decide(now)
		l.pushLocked()
		if !d.Ready {
			break
		}
		var token quorum.Token
		l.mu.token++
		binary.BigEndian.PutUint64(token[:], l.mu.token)
		q := m.Form(now, d, token, now.UnixMilli())
		l.pushLocked()
		for _, a := range d.Answers {
			told := q
			if l.views {
				told = quorum.NewViewer(&q).For(a.ReplicaID)
			}
			l.sendLocked(a.ReplicaID, &skerrypb.Down{Message: &skerrypb.Down_Answer{
				Answer: &skerrypb.Answer{Number: a.Number, Quorum: wire.QuorumToProto(told)}}})
		}
	}
	for _, e := range m.Events() {
		l.mu.log = append(l.mu.log, e.String())
	}
	if l.mu.timer != nil {
		l.mu.timer.Stop()
	}
	if wake := m.Wake(time.Now()); !wake.IsZero() {
		l.mu.timer = time.AfterFunc(time.Until(wake), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.mu.away || m != l.mu.machine {
				return
			}
			if late := time.Since(wake); late > lateTimer {
				m.Doubt(time.Now(), late)
			}
			l.stepLocked()
		})
	}
}

func (l *fakeLighthouse) pushLocked() {
	for _, n := range l.mu.machine.Notices() {
		for _, id := range n.To {
			l.sendLocked(id, wire.NoticeToProto(n))
		}
	}
}

func (l *fakeLighthouse) sendLocked(id quorum.ReplicaID, down *skerrypb.Down) {
	if s := l.mu.streams[id]; s != nil {
		select {
		case s.out <- down:
		default:
			s.cancel()
		}
	}
}

// stateOf is how a replica stands.
func (l *fakeLighthouse) stateOf(id string) quorum.ReplicaState {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.mu.machine.Status(time.Now()).Replicas {
		if string(r.ReplicaID) == id {
			return r.State
		}
	}
	return ""
}

// transcript is what the machine did.
func (l *fakeLighthouse) transcript() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.mu.log...)
}
