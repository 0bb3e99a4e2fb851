package store_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/storetest"
)

// serve runs a server until the test ends.
func serve(t testing.TB, cfg store.ServerConfig) *store.Server {
	t.Helper()
	s, err := store.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close server: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("run server: %v", err)
		}
	})
	return s
}

// dial connects until the test ends.
func dial(t testing.TB, s *store.Server, cfg store.ClientConfig) *store.Client {
	t.Helper()
	c, err := store.Dial(t.Context(), s.Addr(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestHash(t *testing.T) {
	storetest.Run(t, storetest.Options{OneHandle: true}, func(*testing.T) storetest.Opener {
		h := store.NewHash()
		return func() store.Store { return h }
	})
}

func TestFile(t *testing.T) {
	storetest.Run(t, storetest.Options{}, func(t *testing.T) storetest.Opener {
		path := filepath.Join(t.TempDir(), "store")
		return func() store.Store {
			s, err := store.NewFile(path, 0)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	})
}

func TestClient(t *testing.T) {
	storetest.Run(t, storetest.Options{PrefixBytes: len("/")}, func(t *testing.T) storetest.Opener {
		s := serve(t, store.ServerConfig{})
		return func() store.Store { return dial(t, s, store.ClientConfig{}) }
	})
}

// A guarded server behind an address with a prefix: what a quorum uses.
func TestOpenGuarded(t *testing.T) {
	storetest.Run(t, storetest.Options{PrefixBytes: len("/job/7/0/")}, func(t *testing.T) storetest.Opener {
		s := serve(t, store.ServerConfig{Guarded: true})
		if err := s.Allow("job/7", []byte("token")); err != nil {
			t.Fatal(err)
		}
		return func() store.Store {
			c, err := store.Open(t.Context(), s.Addr()+"/job/7/0", store.ClientConfig{Token: []byte("token")})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
	})
}

func TestPrefixOfHash(t *testing.T) {
	opts := storetest.Options{OneHandle: true, PrefixBytes: len("a/b/")}
	storetest.Run(t, opts, func(*testing.T) storetest.Opener {
		h := store.NewHash()
		return func() store.Store { return viewOf{store.WithPrefix(h, "a/b"), h} }
	})
}

// viewOf is a view that closes the store below, as Open's does.
type viewOf struct {
	store.Store
	below store.Store
}

func (v viewOf) Close() error { return v.below.Close() }

// The serving process's own view and a connection are one store.
func TestLocalBesideClient(t *testing.T) {
	s := serve(t, store.ServerConfig{})
	ctx, c := t.Context(), dial(t, s, store.ClientConfig{})
	if err := c.Set(ctx, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	got, err := s.Local().Get(ctx, "k")
	if err != nil || string(got) != "v" {
		t.Fatalf("got %q, %v, want \"v\"", got, err)
	}
	if err := s.Local().Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, "k"); err != nil {
		t.Fatalf("after the local view was closed: %v", err)
	}
}
