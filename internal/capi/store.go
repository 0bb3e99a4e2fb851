package capi

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"sync"

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
