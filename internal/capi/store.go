package capi

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/skerry-ft/skerry/store"
)

// served is a store that this process serves.
type served struct {
	server *store.Server
	ran    sync.WaitGroup
}

// ServeStore serves a rendezvous store at a free port of host until Close, to who knows the
// token (hexadecimal, "": anybody, on loopback alone), and says its "host:port".
func (l *Library) ServeStore(host, token string) (h int64, address string, err error) {
	secret, err := hex.DecodeString(token)
	if err != nil {
		return 0, "", invalid("token: %v", err)
	}
	server, err := store.NewServer(store.ServerConfig{Listen: net.JoinHostPort(host, "0"), Token: secret})
	if err != nil {
		return 0, "", fmt.Errorf("serve a store: %w", err)
	}
	s := &served{server: server}
	s.ran.Go(func() { _ = server.Run(context.Background()) }) // ends with Close
	return l.t.add(s), server.Addr(), nil
}

func (s *served) Close() error {
	err := s.server.Close()
	s.ran.Wait()
	return err
}

// opened is a store that others serve.
type opened struct{ store.Store }

// storeRequest is a call of a store, by the verbs of torch.distributed's.
type storeRequest struct {
	Verb     string   `json:"verb"`
	Key      string   `json:"key"`
	Keys     []string `json:"keys"`
	Value    []byte   `json:"value"` // base64
	Expected []byte   `json:"expected"`
	Amount   int64    `json:"amount"`
}

// storeAnswer is what it returned.
type storeAnswer struct {
	Value []byte `json:"value,omitempty"`
	N     int64  `json:"n,omitempty"`
	Yes   bool   `json:"yes,omitempty"`
}

// CallStore begins a call of a store, see storeRequest and storeAnswer, and returns its handle: see
// Call. The timeout, if above 0, is its ctx's.
func (l *Library) CallStore(h int64, request string, timeout time.Duration) int64 {
	s, err := get[opened](l.t, h)
	var r storeRequest
	if err == nil {
		err = unmarshal(request, &r)
	}
	return l.start(timeout, func(ctx context.Context, c *call) error {
		if err != nil {
			return err
		}
		a, err := r.do(ctx, s)
		if err != nil {
			return err
		}
		c.text, err = text(a)
		return err
	})
}

func (r *storeRequest) do(ctx context.Context, s store.Store) (a storeAnswer, err error) {
	switch r.Verb {
	case "set":
		err = s.Set(ctx, r.Key, r.Value)
	case "get":
		a.Value, err = s.Get(ctx, r.Key)
	case "add":
		a.N, err = s.Add(ctx, r.Key, r.Amount)
	case "append":
		err = s.Append(ctx, r.Key, r.Value)
	case "compare_set":
		a.Value, err = s.CompareSet(ctx, r.Key, r.Expected, r.Value)
	case "check":
		a.Yes, err = s.Check(ctx, r.Keys...)
	case "wait":
		err = s.Wait(ctx, r.Keys...)
	case "delete":
		a.Yes, err = s.Delete(ctx, r.Key)
	default:
		err = invalid("store verb %q", r.Verb)
	}
	return a, err
}
