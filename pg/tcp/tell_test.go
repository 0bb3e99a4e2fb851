package tcp

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"
)

// TestTellsBesideTheCaller: a Configure that has failed does not wait for a store that
// answers no more to take the news; Close ends the telling.
func TestTellsBesideTheCaller(t *testing.T) {
	t.Parallel()
	var log lines
	w := newWorld(t, 2, Options{Transport: TransportTCP, Logger: zerolog.New(&log)})
	b := w.backends[0]
	var gone atomic.Bool
	c := w.config(1, w.everybody(), 0)
	host, prefix, _ := strings.Cut(c.StoreAddress, "/")
	c.StoreAddress = mutable(t, host, &gone) + "/" + prefix
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed, said := make(chan error, 1), ""
	go func() {
		err := b.Configure(ctx, c)
		said = log.text() // before the telling has ended by itself
		failed <- err
	}()
	eventually(t, "it waits for rank 1", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.mu.group != nil && b.mu.group.dialing[1]
	})
	gone.Store(true)
	cancel()
	if err := <-failed; err == nil {
		t.Error("a member that does not come is met")
	}
	const given = "failed configure not told"
	if strings.Contains(said, given) {
		t.Error("Configure has waited for the store")
	}
	b.Close() //nolint:errcheck // once more at the end
	if !strings.Contains(log.text(), given) {
		t.Errorf("the store was not told, or Close did not end it: %s", log.text())
	}
}

// mutable passes connections on to address, whose answers are lost once gone is set.
func mutable(t *testing.T, address string, gone *atomic.Bool) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				c.Close()
				return
			}
			wg.Go(func() { pass(c, &mute{Conn: d, gone: gone}) })
		}
	})
	return ln.Addr().String()
}

// mute is a connection on which nothing is read any more once gone is set.
type mute struct {
	net.Conn

	gone *atomic.Bool
}

func (m *mute) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	if m.gone.Load() {
		n = 0
	}
	return n, err
}
