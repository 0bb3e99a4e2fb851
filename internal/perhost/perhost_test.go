package perhost_test

import (
	"errors"
	"net"
	"testing"

	"github.com/skerry-ft/skerry/internal/perhost"
)

func at(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }

func TestEnter(t *testing.T) {
	t.Parallel()
	c := perhost.New(perhost.Limits{Max: 16, PerHost: 4, Scarce: 2})
	enter := func(from string, want bool) perhost.Place {
		t.Helper()
		p, err := c.Enter(at(from))
		if (err == nil) != want || err != nil && !errors.Is(err, perhost.ErrTooMany) {
			t.Fatalf("a place for %s: %v, want one: %t", from, err, want)
		}
		return p
	}
	first := enter("10.0.0.1", true)
	for range 3 {
		enter("10.0.0.1", true)
	}
	enter("10.0.0.1", false) // PerHost
	first.Leave()
	first.Leave() // the second time is nothing
	enter("10.0.0.1", true)
	enter("10.0.0.1", false)
	for range 4 {
		enter("127.0.0.2", true) // of the eight that are not scarce
	}
	enter("127.0.0.2", false) // Scarce, of which loopback is not exempt
	for _, host := range []string{"127.0.0.1", "2001:db8::1", "10.0.0.2", "10.0.0.3"} {
		enter(host, true)
		enter(host, true)
		enter(host, false)
	}
	if got := c.Taken(); got != 16 {
		t.Errorf("%d places are taken, want 16", got)
	}
	enter("10.0.0.4", false) // Max
}

func TestOneHostOfIPv6(t *testing.T) {
	t.Parallel()
	c := perhost.New(perhost.Limits{PerHost: 1})
	if _, err := c.Enter(at("2001:db8::1")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enter(at("2001:db8::2")); !errors.Is(err, perhost.ErrTooMany) {
		t.Errorf("another address of one /64: %v, want %v", err, perhost.ErrTooMany)
	}
	if _, err := c.Enter(at("2001:db8:0:1::1")); err != nil {
		t.Errorf("another /64: %v", err)
	}
	for range 3 {
		if _, err := c.Enter(&net.UnixAddr{Name: "x"}); err != nil {
			t.Errorf("no host at all: %v", err)
		}
	}
}
