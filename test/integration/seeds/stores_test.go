package seeds

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/store"
)

// pair is two users of one store: the page's server_store and client_store.
type pair struct{ first, second store.Store }

func stores(t *testing.T) map[string]pair {
	t.Helper()
	server, err := store.NewServer(store.ServerConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	dial := func() store.Store {
		c, err := store.Dial(t.Context(), server.Addr(), store.ClientConfig{Timeout: 30 * time.Second})
		return kept(t, c, err)
	}
	path := filepath.Join(t.TempDir(), "filestore")
	open := func() store.Store {
		f, err := store.NewFile(path, 2)
		return kept(t, f, err)
	}
	hash := store.NewHash()
	t.Cleanup(func() { _ = hash.Close() })
	return map[string]pair{
		"TCPStore": {dial(), dial()}, "HashStore": {hash, hash}, "FileStore": {open(), open()},
	}
}

func kept(t *testing.T, s store.Store, err error) store.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestStores: the examples of the key-value store. Waits that the page lets take
// 10 and 30 seconds are shorter.
func TestStores(t *testing.T) {
	for name, p := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			check := func(what string, got, want any, err error) {
				t.Helper()
				if err != nil || got != want {
					t.Errorf("%s gives %v, %v; want %v", what, got, err, want)
				}
			}
			check("set", nil, nil, p.first.Set(ctx, "first_key", []byte("first_value")))
			value, err := p.second.Get(ctx, "first_key")
			check("get", string(value), "first_value", err)
			n, err := p.first.NumKeys(ctx) // the page says 2, with a key of torch's own
			check("num_keys", n, int64(1), err)

			_, err = p.first.Add(ctx, "counter", 1)
			check("add", nil, nil, err)
			_, err = p.first.Add(ctx, "counter", 6)
			check("add", nil, nil, err)
			value, err = p.second.Get(ctx, "counter")
			check("get after add", string(value), "7", err)

			check("set", nil, nil, p.first.Set(ctx, "key", []byte("first_value")))
			value, err = p.second.CompareSet(ctx, "key", []byte("first_value"), []byte("second_value"))
			check("compare_set", string(value), "second_value", err)
			value, err = p.first.Get(ctx, "key")
			check("get after compare_set", string(value), "second_value", err)

			gone, err := p.first.Delete(ctx, "first_key") // FileStore has it too
			check("delete_key", gone, true, err)
			gone, err = p.first.Delete(ctx, "bad_key")
			check("delete_key of a bad key", gone, false, err)

			short, stop := context.WithTimeout(ctx, 20*time.Millisecond)
			defer stop()
			if err := p.first.Wait(short, "bad_key"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("wait for a bad key with a timeout: %v", err)
			}
			p.first.SetTimeout(20 * time.Millisecond)
			if err := p.first.Wait(context.Background(), "bad_key"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("wait for a bad key after set_timeout: %v", err)
			}
			p.first.SetTimeout(time.Minute)
			within := store.WithPrefix(p.first, "some/prefix")
			check("set", nil, nil, within.Set(ctx, "key", []byte("another")))
			value, err = p.second.Get(ctx, "key")
			check("get beside a PrefixStore", string(value), "second_value", err)
		})
	}
}
