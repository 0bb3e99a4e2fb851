package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/store"
)

// What a rank does with a store in a rendezvous: it connects, writes where it is, and
// reads where the others are.
const (
	opStoreOpen = "store open"
	opStoreSet  = "store set"
	opStoreGet  = "store get"
)

// storeCalls is how many calls on one connection make a sample.
const storeCalls = 100

// tlsStores are connections to a store of this process, and calls on them.
func tlsStores(ctx context.Context, o Options, files store.TLSFiles, emit emitFunc) error {
	contest := Contest{Bench: "tls", Unit: "us", Samples: cmp.Or(o.Samples, 20), Warmup: 2}
	start := func(impl string, t *store.TLS) (Contestant, error) { return startStore(ctx, impl, t) }
	return inBoth(files, start, func(all []Contestant) error {
		err := contest.Each(ctx, all, emit,
			Params{"op": opStoreOpen}, Params{"op": opStoreSet, "bytes": 128}, Params{"op": opStoreGet, "bytes": 128},
			Params{"op": opStoreSet, "bytes": 1 << 20}, Params{"op": opStoreGet, "bytes": 1 << 20})
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		return nil
	})
}

// meeting is a store and a client of it.
type meeting struct {
	impl   string
	addr   string
	config store.ClientConfig
	client *store.Client
	end    func() error // of the server
}

func startStore(ctx context.Context, impl string, t *store.TLS) (*meeting, error) {
	token := []byte("the token of a bench")
	m := &meeting{impl: impl, config: store.ClientConfig{Token: token, TLS: t}}
	var err error
	if m.addr, m.end, err = serveStore(store.ServerConfig{Token: token, TLS: t}); err != nil {
		return nil, err
	}
	if m.client, err = store.Dial(ctx, m.addr, m.config); err != nil {
		return nil, errors.Join(err, m.end())
	}
	return m, nil
}

// Impl implements Contestant.
func (m *meeting) Impl() string { return m.impl }

// Sample implements Contestant: the microseconds of one call, or of one connection
// with its proof of the token, on average.
func (m *meeting) Sample(ctx context.Context, p Params) (float64, error) {
	const key = "k"
	n := storeCalls
	size, _ := p["bytes"].(int)
	if size > 1<<16 {
		n /= 10
	}
	value := bytes.Repeat([]byte{7}, size)
	set := func() error { return m.client.Set(ctx, key, value) }
	call := set
	switch p["op"] {
	case opStoreOpen:
		call = func() error {
			c, err := store.Dial(ctx, m.addr, m.config)
			if err != nil {
				return err
			}
			return c.Close()
		}
	case opStoreGet:
		if err := set(); err != nil {
			return 0, err
		}
		call = func() error {
			got, err := m.client.Get(ctx, key)
			if err == nil && len(got) != size {
				err = fmt.Errorf("got %d bytes, want %d", len(got), size)
			}
			return err
		}
	}
	began := time.Now()
	for range n {
		if err := call(); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(began)) / float64(n) / float64(time.Microsecond), nil
}

// Close implements Contestant.
func (m *meeting) Close() error {
	return errors.Join(m.client.Close(), m.end())
}
