package paramserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/tensor"
	"github.com/skerry-ft/skerry/train/paramserver"
	"github.com/skerry-ft/skerry/train/spawn"
)

func backend() (pg.Backend, error) { return tcp.New(tcp.Options{}), nil }

// start runs a server until the test ends; then nothing of a session is left in it.
func start(t *testing.T, cfg paramserver.ServerConfig) *paramserver.Server {
	t.Helper()
	if cfg.Backend == nil {
		cfg.Backend = backend
	}
	cfg.Log = zerolog.New(zerolog.NewTestWriter(t)).With().Timestamp().Logger()
	s, err := paramserver.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-done); err != nil {
			t.Errorf("server: %v", err)
		}
		if n := s.Sessions(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
	return s
}

// quiet waits until no session is left, nor a key of one.
func quiet(t *testing.T, s *paramserver.Server) {
	t.Helper()
	testkit.Eventually(t, "sessions to end", func() bool { return s.Sessions() == 0 })
	testkit.EventuallyNil(t, "keys to go", func() error {
		n, err := s.Keys(t.Context())
		if err == nil && n != 0 {
			err = fmt.Errorf("%d keys are left in the store", n)
		}
		return err
	})
}

func dial(t *testing.T, s *paramserver.Server, token string) (*paramserver.Client, error) {
	t.Helper()
	return paramserver.Dial(t.Context(), paramserver.ClientConfig{Address: s.Addr(), Backend: tcp.New(tcp.Options{}), Token: []byte(token)})
}

// turn asks the server for twice the sum of both ends' numbers, so many times.
func turn(ctx context.Context, g *pg.Group, mine float32, times int) error {
	for i := range times {
		x := []float32{mine + float32(i)}
		if err := g.AllReduce(ctx, tensor.Of(x), tensor.Sum); err != nil {
			return err
		}
		if want := mine + float32(i) + 1000; x[0] != want {
			return fmt.Errorf("turn %d gives %v, want %v", i, x[0], want)
		}
	}
	return nil
}

const turns = 5

// serve is the server's side of turn.
func serve(ctx context.Context, _ paramserver.Session, g *pg.Group) error {
	for range turns {
		if err := g.AllReduce(ctx, tensor.Of([]float32{1000}), tensor.Sum); err != nil {
			return err
		}
	}
	return nil
}

// Many sessions go on at once, each a group of its own, and leave nothing.
func TestManySessions(t *testing.T) {
	t.Parallel()
	var ids sync.Map
	s := start(t, paramserver.ServerConfig{Forward: func(ctx context.Context, n paramserver.Session, g *pg.Group) error {
		if _, twice := ids.LoadOrStore(n.ID, true); twice || n.Remote == "" || g.Rank() != 0 || g.Size() != 2 {
			return fmt.Errorf("session %+v as rank %d of %d", n, g.Rank(), g.Size())
		}
		return serve(ctx, n, g)
	}})
	const clients = 12
	errs := make([]error, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for range 2 {
				c, err := dial(t, s, "")
				if err != nil {
					errs[i] = err
					return
				}
				errs[i] = errors.Join(turn(t.Context(), c.Group, float32(i), turns), c.Close())
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	quiet(t, s)
}

// A client that is killed in an operation, one that closes in it, a Forward that fails, and
// one that panics, end their own sessions; one that goes on beside them goes on, and the
// next ones find the server as it was.
func TestFailuresStayApart(t *testing.T) {
	t.Parallel()
	var kind atomic.Int32
	reached := make(chan struct{}, 8)
	s := start(t, paramserver.ServerConfig{Timeout: 10 * time.Minute, Forward: func(ctx context.Context, n paramserver.Session, g *pg.Group) error {
		switch kind.Load() {
		case 1: // the client is behind the next operation
			if err := g.AllReduce(ctx, tensor.New(tensor.Float32, 1<<20), tensor.Sum); err != nil {
				return err
			}
			reached <- struct{}{}
			_, err := g.Recv(ctx, tensor.New(tensor.Float32, 4), pg.Envelope{Peer: 1})
			return err
		case 2:
			return errors.New("no parameters")
		case 3:
			panic("no parameters")
		}
		return serve(ctx, n, g)
	}})
	steady, err := dial(t, s, "")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the steady session to begin", func() bool { return s.Sessions() == 1 })
	if err := turn(t.Context(), steady.Group, 1, 2); err != nil {
		t.Fatal(err)
	}

	kind.Store(1)
	killed, err := spawn.Start(spawn.Worker{Name: "stuck-client", WorldSize: 1, Args: []byte(s.Addr())}, spawn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	<-reached
	killed.Kill()
	closed, err := dial(t, s, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.AllReduce(t.Context(), tensor.New(tensor.Float32, 1<<20), tensor.Sum); err != nil {
		t.Fatal(err)
	}
	<-reached
	if err := closed.Close(); err != nil {
		t.Error(err)
	}
	for _, k := range []int32{2, 3} {
		testkit.Eventually(t, "the sessions before to end", func() bool { return s.Sessions() == 1 })
		kind.Store(k)
		failsAtOnce(t, s)
	}
	kind.Store(0)
	if err := turn(t.Context(), steady.Group, 1, turns-2); err != nil {
		t.Errorf("the steady session: %v", err)
	}
	if err := steady.Close(); err != nil {
		t.Error(err)
	}
	again, err := dial(t, s, "")
	if err == nil {
		err = errors.Join(turn(t.Context(), again.Group, 3, turns), again.Close())
	}
	if err != nil {
		t.Errorf("after the failures: %v", err)
	}
	quiet(t, s)
}

// failsAtOnce opens a session whose Forward fails: the client sees it.
func failsAtOnce(t *testing.T, s *paramserver.Server) {
	t.Helper()
	c, err := dial(t, s, "")
	if err != nil { // the session failed before the client was through
		return
	}
	if err := c.AllReduce(t.Context(), tensor.New(tensor.Float32, 1), tensor.Sum); err == nil {
		t.Error("the client does not see that its session failed")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// What the server sent last arrives, however late the client takes it.
func TestLastMessageArrives(t *testing.T) {
	t.Parallel()
	s := start(t, paramserver.ServerConfig{Forward: func(ctx context.Context, _ paramserver.Session, g *pg.Group) error {
		return g.Send(ctx, tensor.Of(slices.Repeat([]float32{7}, 1<<16)), pg.Envelope{Peer: 1})
	}})
	c, err := dial(t, s, "")
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 1<<16)
	if _, err := c.Recv(t.Context(), tensor.Of(x), pg.Envelope{Peer: 0}); err != nil || x[0] != 7 || x[1<<16-1] != 7 {
		t.Errorf("got %v … %v: %v", x[0], x[1<<16-1], err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	quiet(t, s)
}

func get(t *testing.T, method, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// asks asks a server for a session, and does not come to it.
func asks(t *testing.T, s *paramserver.Server) {
	t.Helper()
	status, text := get(t, http.MethodGet, "http://"+s.Addr()+"/new_session")
	if id, address, err := paramserver.ReadAnswer(status, []byte(text)); err != nil || !strings.HasSuffix(address, "/session/"+id) {
		t.Fatalf("%d %q: %v", status, text, err)
	}
}

// Sessions are bounded: while a client that does not come holds its place the next one is
// told that all are taken. Other requests are answered with 400.
func TestPlaces(t *testing.T) {
	t.Parallel()
	s := start(t, paramserver.ServerConfig{Forward: serve, MaxSessions: 1, MeetTimeout: time.Hour})
	for _, bad := range []struct{ method, path string }{
		{http.MethodGet, "/"}, {http.MethodGet, "/new_session/x"}, {http.MethodPost, "/new_session"}, {http.MethodOptions, "/new_session"},
	} {
		if status, text := get(t, bad.method, "http://"+s.Addr()+bad.path); status != http.StatusBadRequest || !strings.Contains(text, "/new_session") {
			t.Errorf("%s %s: %d %q", bad.method, bad.path, status, text)
		}
	}
	asks(t, s)
	if c, err := dial(t, s, ""); !errors.Is(err, paramserver.ErrBusy) {
		if err == nil {
			err = c.Close()
		}
		t.Errorf("a second session found a place: %v", err)
	}
}

// A client that does not come loses its place after MeetTimeout.
func TestPlaceIsGivenBack(t *testing.T) {
	t.Parallel()
	s := start(t, paramserver.ServerConfig{Forward: serve, MaxSessions: 1, MeetTimeout: 300 * time.Millisecond})
	asks(t, s)
	testkit.EventuallyNil(t, "a place", func() error { // a client that is late is given up as well
		c, err := dial(t, s, "")
		if err != nil {
			return err
		}
		return errors.Join(turn(t.Context(), c.Group, 1, turns), c.Close())
	})
	quiet(t, s)
}

// A server with a token takes those who prove it, and nothing of the answer lets others in.
func TestToken(t *testing.T) {
	t.Parallel()
	s := start(t, paramserver.ServerConfig{Forward: serve, Token: []byte("a secret of the job")})
	for _, wrong := range []string{"", "another secret"} {
		if _, err := dial(t, s, wrong); !errors.Is(err, paramserver.ErrDenied) {
			t.Errorf("token %q: %v, want ErrDenied", wrong, err)
		}
	}
	if n := s.Sessions(); n != 0 {
		t.Errorf("%d sessions of those who were denied", n)
	}
	c, err := dial(t, s, "a secret of the job")
	if err != nil {
		t.Fatal(err)
	}
	config, _ := c.Config()
	for _, token := range []string{"", c.ID, "another secret"} {
		st, err := store.Open(t.Context(), config.StoreAddress, store.ClientConfig{Token: []byte(token)})
		if err == nil {
			err = errors.Join(st.Set(t.Context(), "k", nil), st.Close())
		}
		if !errors.Is(err, store.ErrUnauthorized) {
			t.Errorf("the store, by token %q: %v, want ErrUnauthorized", token, err)
		}
	}
	if err := errors.Join(turn(t.Context(), c.Group, 1, turns), c.Close()); err != nil {
		t.Error(err)
	}
	quiet(t, s)
}

// Close ends the sessions under way, whatever they wait for.
func TestCloseEndsSessions(t *testing.T) {
	t.Parallel()
	waiting := make(chan struct{}, 2)
	s := start(t, paramserver.ServerConfig{Forward: func(_ context.Context, _ paramserver.Session, g *pg.Group) error {
		waiting <- struct{}{}
		_, err := g.Recv(context.Background(), tensor.New(tensor.Float32, 1), pg.Envelope{Peer: 1})
		return err
	}})
	var clients []*paramserver.Client
	for range 2 {
		c, err := dial(t, s, "")
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
		<-waiting
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "sessions to end", func() bool { return s.Sessions() == 0 })
	for _, c := range clients {
		if _, err := c.Recv(t.Context(), tensor.New(tensor.Float32, 1), pg.Envelope{Peer: 0}); err == nil {
			t.Error("a client of a closed server goes on")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := paramserver.Dial(ctx, paramserver.ClientConfig{Address: s.Addr(), Backend: tcp.New(tcp.Options{})}); err == nil {
		t.Error("a session with a closed server")
	}
}

// A server that was never run gives its listeners back.
func TestCloseWithoutRun(t *testing.T) {
	t.Parallel()
	s, err := paramserver.NewServer(paramserver.ServerConfig{Backend: backend, Forward: serve})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), s.Close(), s.Run(t.Context())); err != nil && !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}

// What is wrong with a configuration is said at once, by field, value and bound; a server
// beyond this host needs a guard.
func TestRefused(t *testing.T) {
	t.Parallel()
	_, err := paramserver.NewServer(paramserver.ServerConfig{Listen: ":0", MaxSessions: -1, MeetTimeout: -1, Timeout: -2, Token: make([]byte, 5000)})
	for _, says := range []string{"Advertise", "Backend", "Forward", "MaxSessions = -1, want 0 to 16384", "MeetTimeout", "Timeout = -2ns", "Token has 5000 bytes"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v\ndoes not say %s", err, says)
		}
	}
	if _, err := paramserver.NewServer(paramserver.ServerConfig{Listen: "0.0.0.0:0", Advertise: "h", Backend: backend, Forward: serve}); err == nil ||
		!strings.Contains(err.Error(), "nothing guards it") {
		t.Errorf("open to all: %v, want a refusal", err)
	}
	if _, err := paramserver.Dial(t.Context(), paramserver.ClientConfig{Address: "here", Timeout: -1}); err == nil ||
		!strings.Contains(err.Error(), `Address = "here", want host:port`) || !strings.Contains(err.Error(), "Backend") {
		t.Errorf("dial: %v", err)
	}
}

// FuzzReadAnswer: no answer makes a client panic, or gives it a session that is none.
func FuzzReadAnswer(f *testing.F) {
	f.Add(200, []byte(`{"session_id":"abc","store_addr":"[::1]:80/session/abc"}`))
	f.Add(503, []byte("busy"))
	f.Add(200, []byte(`{"session_id":"../x","store_addr":"h:80/session/../x"}`))
	f.Fuzz(func(t *testing.T, status int, text []byte) {
		id, address, err := paramserver.ReadAnswer(status, text)
		if err == nil && (status != 200 || id == "" || strings.ContainsAny(id, "/. ") || !strings.HasSuffix(address, ":80/session/"+id) && !strings.Contains(address, ":")) {
			t.Errorf("%d %q is session %q at %q", status, text, id, address)
		}
	})
}
