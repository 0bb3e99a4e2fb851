package store_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/store"
)

// limit is how long a test waits for what should come at once.
const limit = 90 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func TestServerEndsWaits(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"Close", "ctx"} {
		s, err := store.NewServer(store.ServerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(within(t))
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		c := dial(t, s, store.ClientConfig{})
		waits := make(chan error, 3)
		go func() { waits <- c.Wait(within(t), "never") }()
		go func() { _, err := c.Pop(within(t), "never", true); waits <- err }()
		go func() { _, err := s.Local().Get(within(t), "never"); waits <- err }()
		// Both waits of the client stand in the server once this is answered
		// on a third connection; if not yet, they end as well, a moment later.
		if err := c.Set(within(t), "k", nil); err != nil {
			t.Fatal(err)
		}
		if how == "Close" {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		for range cap(waits) {
			if err := <-waits; !errors.Is(err, store.ErrClosed) {
				t.Errorf("%s: wait: got %v, want %v", how, err, store.ErrClosed)
			}
		}
		if err := <-ran; err != nil {
			t.Errorf("%s: run: got %v, want nil", how, err)
		}
		if err := c.Set(within(t), "k", nil); !errors.Is(err, store.ErrClosed) || !strings.Contains(err.Error(), s.Addr()) {
			t.Errorf("%s: set: got %v, want %v that names %s", how, err, store.ErrClosed, s.Addr())
		}
		if err := s.Close(); err != nil {
			t.Errorf("close again: %v", err)
		}
		if err := s.Run(within(t)); !errors.Is(err, store.ErrClosed) {
			t.Errorf("run again: got %v, want %v", err, store.ErrClosed)
		}
	}
}

func TestServerTakesListener(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, store.ServerConfig{Listener: ln})
	if s.Addr() != ln.Addr().String() {
		t.Fatalf("got %s, want %s", s.Addr(), ln.Addr())
	}
	c := dial(t, s, store.ClientConfig{})
	if err := c.Set(within(t), "k", nil); err != nil {
		t.Fatal(err)
	}
	_, err = store.NewServer(store.ServerConfig{Listen: s.Addr()})
	if err == nil || !strings.Contains(err.Error(), s.Addr()) {
		t.Fatalf("a port that is taken: got %v, want an error that names it", err)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	s := serve(t, store.ServerConfig{Token: []byte("master"), AuthWait: time.Millisecond})
	ctx := within(t)
	for what, token := range map[string]string{"none": "", "another": "other"} {
		if _, err := store.Dial(ctx, s.Addr(), store.ClientConfig{Token: []byte(token)}); !errors.Is(err, store.ErrUnauthorized) {
			t.Errorf("token %s: got %v, want %v", what, err, store.ErrUnauthorized)
		}
	}
	master := dial(t, s, store.ClientConfig{Token: []byte("master")})
	if err := master.Set(ctx, "anywhere", nil); err != nil {
		t.Fatal(err)
	}

	if err := s.Allow("job/1", []byte("quorum 1")); err != nil {
		t.Fatal(err)
	}
	member := dial(t, s, store.ClientConfig{Token: []byte("quorum 1")})
	if err := member.Set(ctx, "job/1/0/k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func() error{
		"set":           func() error { return member.Set(ctx, "job/2/k", nil) },
		"sibling":       func() error { return member.Set(ctx, "job/10", nil) },
		"check":         func() error { _, err := member.Check(ctx, "job/1/0/k", "anywhere"); return err },
		"multi-set":     func() error { return member.MultiSet(ctx, []string{"anywhere"}, [][]byte{nil}) },
		"delete all":    func() error { _, err := member.DeletePrefix(ctx, ""); return err },
		"delete others": func() error { _, err := member.DeletePrefix(ctx, "job"); return err },
	} {
		if err := call(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s outside of the prefix: got %v, want %v", what, err, store.ErrClosed)
		}
	}
	if got, err := member.Get(ctx, "job/1/0/k"); err != nil || string(got) != "v" {
		t.Fatalf("after refusals: got %q, %v, want \"v\"", got, err)
	}

	waiting := make(chan error, 1)
	go func() { waiting <- member.Wait(ctx, "job/1/never") }()
	s.Forget([]byte("quorum 1"))
	if err := <-waiting; err == nil || ctx.Err() != nil {
		t.Fatalf("a wait under a forgotten token: got %v", err)
	}
	if err := member.Set(ctx, "job/1/k", nil); err == nil {
		t.Fatal("a forgotten token still writes")
	}
	if err := master.Set(ctx, "anywhere", nil); err != nil {
		t.Fatalf("another token's client: %v", err)
	}
}

// A quorum that ended a moment ago leaves clients behind, of its token and of its keys:
// they are refused, and that is no warning. A client that was never let in is one.
func TestForgottenIsNoFault(t *testing.T) {
	t.Parallel()
	out := &lockedBuffer{}
	s := serve(t, store.ServerConfig{Guarded: true, AuthWait: time.Millisecond, Log: out.logger()})
	ctx := within(t)
	for _, q := range []string{"1", "2"} {
		if err := s.Allow("job/"+q, []byte("quorum "+q)); err != nil {
			t.Fatal(err)
		}
	}
	member := dial(t, s, store.ClientConfig{Token: []byte("quorum 2")})
	s.Forget([]byte("quorum 1"))
	if _, err := member.DeletePrefix(ctx, "job/1/0/tcp"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("keys of a quorum that is over: %v, want %v", err, store.ErrClosed)
	}
	if _, err := store.Dial(ctx, s.Addr(), store.ClientConfig{Token: []byte("quorum 1")}); !errors.Is(err, store.ErrUnauthorized) {
		t.Errorf("token of a quorum that is over: %v, want %v", err, store.ErrUnauthorized)
	}
	out.await(t, `"error":"token forgotten"`)
	if strings.Contains(out.String(), `"level":"warn"`) {
		t.Errorf("what ended is a warning:\n%s", out)
	}
	if err := member.Set(ctx, "job/3/k", nil); !errors.Is(err, store.ErrClosed) {
		t.Errorf("keys of another quorum: %v, want %v", err, store.ErrClosed)
	}
	out.await(t, "is outside")
	if _, err := store.Dial(ctx, s.Addr(), store.ClientConfig{Token: []byte("quorum 3")}); !errors.Is(err, store.ErrUnauthorized) {
		t.Errorf("unknown token: %v, want %v", err, store.ErrUnauthorized)
	}
	out.await(t, "unknown token")
	if n := strings.Count(out.String(), `"level":"warn"`); n != 2 {
		t.Errorf("%d warnings, want 2:\n%s", n, out)
	}
}

// Members of a quorum learn its token at different moments.
func TestTokenThatIsEarly(t *testing.T) {
	t.Parallel()
	s := serve(t, store.ServerConfig{Guarded: true, AuthWait: limit})
	dialed := make(chan error, 1)
	go func() {
		c, err := store.Open(within(t), s.Addr()+"/q", store.ClientConfig{Token: []byte("token")})
		if err == nil {
			err = errors.Join(c.Set(within(t), "k", nil), c.Close())
		}
		dialed <- err
	}()
	if err := s.Allow("q", []byte("token")); err != nil {
		t.Fatal(err)
	}
	if err := <-dialed; err != nil {
		t.Fatal(err)
	}
}

// A server that cannot prove the token is not trusted with anything.
func TestImpostor(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		buf := make([]byte, 5+1+16+32)
		nc.Read(buf)
		nc.Write(append([]byte{1}, make([]byte, 16+32)...))
		nc.Read(buf)
	}()
	_, err = store.Dial(within(t), ln.Addr().String(), store.ClientConfig{Token: []byte("token")})
	if !errors.Is(err, store.ErrUnauthorized) {
		t.Fatalf("got %v, want %v", err, store.ErrUnauthorized)
	}
}

func TestServerBounds(t *testing.T) {
	t.Parallel()
	s := serve(t, store.ServerConfig{MaxConns: 2, MaxBytes: 4096})
	ctx := within(t)
	c := dial(t, s, store.ClientConfig{})
	if err := c.Set(ctx, "k", make([]byte, 1024)); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(ctx, "big", make([]byte, 4096)); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("over MaxBytes: got %v, want %v", err, store.ErrClosed)
	}
	if err := s.Local().Set(ctx, "big", make([]byte, 4096)); !errors.Is(err, store.ErrTooLarge) {
		t.Fatalf("over MaxBytes, locally: got %v, want %v", err, store.ErrTooLarge)
	}
	// Replacing and deleting give room back.
	for range 100 {
		if err := c.Set(ctx, "k", make([]byte, 1024)); err != nil {
			t.Fatal(err)
		}
		if err := c.Push(ctx, "q", make([]byte, 1024)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Pop(ctx, "q", true); err != nil {
			t.Fatal(err)
		}
	}
	dial(t, s, store.ClientConfig{})
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := store.Dial(short, s.Addr(), store.ClientConfig{}); err == nil {
		t.Fatal("a client over MaxConns was taken")
	}
	if err := c.Set(ctx, "k", nil); err != nil {
		t.Fatalf("an old client: %v", err)
	}
}

func TestShared(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	var shares []*store.Share
	ran := make(chan error, 3)
	ctx, cancel := context.WithCancel(within(t))
	for range cap(ran) {
		h, err := store.NewShared(store.ServerConfig{Listen: addr})
		if err != nil {
			t.Fatal(err)
		}
		shares = append(shares, h)
		go func() { ran <- h.Run(ctx) }()
	}
	if _, err := store.NewShared(store.ServerConfig{Listen: addr, Guarded: true}); err == nil {
		t.Fatal("a guarded share of an unguarded server was given")
	}
	c := dial(t, shares[0].Server, store.ClientConfig{})
	for i, h := range shares[:2] {
		if err := c.Set(within(t), fmt.Sprint(i), nil); err != nil {
			t.Fatal(err)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ran; err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Wait(within(t), "0", "1"); err != nil {
		t.Fatalf("while one user is left: %v", err)
	}
	cancel()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	if err := c.Set(within(t), "k", nil); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("after the last user: got %v, want %v", err, store.ErrClosed)
	}
	again, err := store.NewShared(store.ServerConfig{Listen: addr})
	if err != nil {
		t.Fatalf("the address after the last user: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	one, err := store.NewShared(store.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	two, err := store.NewShared(store.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if one.Addr() == two.Addr() {
		t.Errorf("two free ports: got %s twice", one.Addr())
	}
	if err := errors.Join(one.Close(), two.Close()); err != nil {
		t.Fatal(err)
	}
}
