package pgcarrier_test

import (
	"context"
	"net"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/skerry-ft/skerry/checkpoint/pgcarrier"
	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp"
)

// A donor that listens everywhere meets its target where others reach it, and not on loopback,
// whose address it would tell as its own.
func TestEveryInterface(t *testing.T) {
	t.Parallel()
	outward, ok := netaddr.Outward()
	if !ok {
		t.Skip("this host has no address beyond loopback")
	}
	for _, host := range []string{"", "0.0.0.0"} {
		told := make(chan string, 2)
		open := func() (pg.Backend, error) {
			b := tcp.New(tcp.Options{Transport: tcp.TransportTCP, Open: true})
			return meets{b, told}, nil
		}
		c, err := pgcarrier.New(pgcarrier.Config{Open: open, Host: host, Advertise: outward.String()})
		if err != nil {
			t.Fatal(err)
		}
		secret := make([]byte, 32)
		donor, offer, err := c.Offer(secret)
		if err != nil {
			t.Fatal(err)
		}
		target, err := c.Answer(offer, secret)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := net.SplitHostPort(offer); err != nil || got != outward.String() {
			t.Errorf("Host = %q: offer %s, %v, want one at %s", host, offer, err, outward)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var both errgroup.Group
		both.Go(func() error { return donor.Connect(ctx) })
		both.Go(func() error { return target.Connect(ctx) })
		if err := both.Wait(); err != nil {
			t.Errorf("Host = %q: %v", host, err)
		}
		for range 2 {
			if at := <-told; at != offer+"/heal" {
				t.Errorf("Host = %q: a side meets the other at %s, want %s", host, at, offer)
			}
		}
		if err := donor.Close(); err != nil {
			t.Error(err)
		}
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	}
}

// meets tells where a backend's store is.
type meets struct {
	pg.Backend
	told chan<- string
}

func (m meets) Configure(ctx context.Context, c pg.Config) error {
	m.told <- c.StoreAddress
	return m.Backend.Configure(ctx, c)
}
