package netaddr_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/testkit"
)

func TestReached(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"127.0.0.1:0": false, "127.0.1.1:80": false, "[::1]:0": false, "localhost:0": false, "[::ffff:127.0.0.1]:0": false,
		":0": true, "0.0.0.0:0": true, "[::]:0": true, "192.0.2.7:1": true, "[2001:db8::7]:1": true, "[fe80::1%lo]:1": true,
	} {
		if got, err := netaddr.Reached(t.Context(), address); got != want || err != nil {
			t.Errorf("Reached(%q) = %t, %v; want %t", address, got, err, want)
		}
	}
	if _, err := netaddr.Reached(t.Context(), "nonsense"); err == nil || !strings.Contains(err.Error(), `"nonsense", want host:port`) {
		t.Errorf("nonsense: %v", err)
	}
	if _, err := netaddr.Reached(t.Context(), "nohost.invalid:1"); err == nil || !strings.Contains(err.Error(), `find the address of "nohost.invalid"`) {
		t.Errorf("a name that is nobody's: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for address, refused := range map[string]bool{"127.0.0.1:0": false, "[::1]:0": false, ":29510": true, "192.0.2.7:1": true} {
		err := netaddr.Check(t.Context(), address, false, "set this")
		if got := errors.Is(err, netaddr.ErrUnguarded); got != refused {
			t.Errorf("Check(%q) = %v, want it refused: %t", address, err, refused)
		}
		if refused && (!strings.Contains(err.Error(), address) || !strings.HasSuffix(err.Error(), ": set this")) {
			t.Errorf("Check(%q) = %q, want the address, and what to set", address, err)
		}
		if err := netaddr.Check(t.Context(), address, true, "set this"); err != nil {
			t.Errorf("Check(%q), allowed: %v", address, err)
		}
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "[::1]": true, "localhost": true, "LocalHost.": true, "a.localhost": true,
		"": false, "0.0.0.0": false, "10.0.0.1": false, "localhost.example": false, "host": false, "::": false,
	} {
		if got := netaddr.Loopback(host); got != want {
			t.Errorf("Loopback(%q) = %t", host, got)
		}
	}
}

func TestRouteFrom(t *testing.T) {
	t.Parallel()
	ip, err := netaddr.RouteFrom(netip.MustParseAddr("127.0.0.5"))
	if err != nil || !ip.IsLoopback() || !netaddr.Own(netip.MustParseAddr("127.0.0.1")) || netaddr.Own(netip.MustParseAddr("192.0.2.9")) {
		t.Errorf("packets to loopback leave from %v, %v", ip, err)
	}
}

func TestOpenFromEnv(t *testing.T) {
	for text, want := range map[string]bool{"": false, "0": false, "1": true, "true": true} {
		t.Setenv(netaddr.EnvOpen, text)
		if got, err := netaddr.OpenFromEnv(); got != want || err != nil {
			t.Errorf("%q: %t, %v", text, got, err)
		}
	}
	t.Setenv(netaddr.EnvOpen, "wide")
	if _, err := netaddr.OpenFromEnv(); err == nil || err.Error() != `SKERRY_OPEN = "wide", want 1 or 0` {
		t.Errorf("wide: %v", err)
	}
}

func TestMeeting(t *testing.T) {
	t.Parallel()
	meetWithin := func(limit time.Duration, addresses ...string) (string, netip.Addr, error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return netaddr.Meeting(ctx, addresses)
	}
	meet := func(addresses ...string) (string, netip.Addr, error) {
		return meetWithin(testkit.Patience, addresses...)
	}
	for _, loopback := range []string{"127.0.0.1:1", "[::1]:1", "localhost:1", "0.0.0.0:1", "[::]:1"} {
		if at, own, err := meet(loopback); at != "" || !own.IsLoopback() || err != nil {
			t.Errorf("%s: %q, %v, %v", loopback, at, own, err)
		}
	}
	if at, own, err := meet(); at != "" || own.IsValid() || err != nil {
		t.Errorf("nowhere: %q, %v, %v", at, own, err)
	}
	if _, _, err := meetWithin(time.Second, "nohost.invalid:1", "other.invalid:2"); err == nil ||
		!strings.Contains(err.Error(), "nohost.invalid:1: ") || !strings.Contains(err.Error(), "; other.invalid:2: ") {
		t.Errorf("names that are nobody's: %v", err)
	}
	outward, ok := netaddr.Outward()
	if !ok {
		t.Skip("this host has no address beyond loopback")
	}
	far := netip.AddrPortFrom(outward, 1).String()
	if at, own, err := meet("nohost.invalid:1", "127.0.0.1:1", far); at != far || own != outward || err != nil {
		t.Errorf("%s: %q, %v, %v", far, at, own, err)
	}
	host, err := os.Hostname()
	if all, e := netaddr.Lookup(t.Context(), host); err != nil || e != nil || !all[0].IsLoopback() {
		t.Skipf("this host does not know its own name as loopback: %v, %v", all, e)
	}
	if at, own, err := meet(host + ":1"); at == "" || own != outward || err != nil {
		t.Errorf("this host's own name, which it knows as loopback: %q, %v, %v", at, own, err)
	}
}
