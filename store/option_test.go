package store_test

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/store"
)

// With StrictAdd only Add makes a counter, and any other write ends one.
func TestStrictAdd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store")
	file := func() store.Store {
		f, err := store.NewFile(path, 0, store.StrictAdd())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	hash := store.NewHash(store.StrictAdd())
	t.Cleanup(func() { hash.Close() })
	for name, s := range map[string]store.Store{
		"hash":   hash,
		"file":   file(),
		"server": dial(t, serve(t, store.ServerConfig{StrictAdd: true}), store.ClientConfig{}),
	} {
		t.Run(name, func(t *testing.T) {
			strictAdd(t, s, name != "server") // the protocol has no word for why
		})
	}
	// Who opens the file later knows a counter from a value that was set.
	again := file()
	if sum, err := again.Add(t.Context(), "n", 1); err != nil || sum != 7 {
		t.Errorf("add to a counter of another handle: %d, %v", sum, err)
	}
	if _, err := again.Add(t.Context(), "set", 1); !errors.Is(err, store.ErrNotNumber) {
		t.Errorf("add to what another handle set: %v, want ErrNotNumber", err)
	}
}

func strictAdd(t *testing.T, s store.Store, told bool) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	refused := func(key, holds string) {
		t.Helper()
		if _, err := s.Add(ctx, key, 1); err == nil || told && !errors.Is(err, store.ErrNotNumber) {
			t.Errorf("add to %q: %v, want ErrNotNumber", key, err)
		}
		if got, err := s.Get(ctx, key); err != nil || string(got) != holds {
			t.Errorf("%q holds %q, %v, want %q", key, got, err, holds)
		}
	}
	for _, want := range []int64{3, 6} {
		sum, err := s.Add(ctx, "n", 3)
		must(err)
		if sum != want {
			t.Fatalf("sum %d, want %d", sum, want)
		}
	}
	must(s.Set(ctx, "set", []byte("5")))
	refused("set", "5")
	must(s.MultiSet(ctx, []string{"multi"}, [][]byte{[]byte("5")}))
	refused("multi", "5")
	_, err := s.CompareSet(ctx, "compared", nil, []byte("5"))
	must(err)
	refused("compared", "5")
	must(s.Append(ctx, "appended", []byte("5")))
	refused("appended", "5")

	_, err = s.Add(ctx, "was", 1)
	must(err)
	must(s.Append(ctx, "was", []byte("0")))
	refused("was", "10")
	_, err = s.Delete(ctx, "was")
	must(err)
	if sum, err := s.Add(ctx, "was", 1); err != nil || sum != 1 {
		t.Errorf("add to a deleted key: %d, %v, want 1", sum, err)
	}
}

// Users of one shared server agree on what Add may do.
func TestSharedStrictAdd(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	strict, err := store.NewShared(store.ServerConfig{Listen: addr, StrictAdd: true})
	if err != nil {
		t.Fatal(err)
	}
	defer strict.Close()
	if _, err := store.NewShared(store.ServerConfig{Listen: addr}); err == nil || !strings.Contains(err.Error(), "StrictAdd = false, want true") {
		t.Errorf("a user that differs: %v", err)
	}
	same, err := store.NewShared(store.ServerConfig{Listen: addr, StrictAdd: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := same.Close(); err != nil {
		t.Error(err)
	}
}
