package portlease

import (
	"net"
	"strings"
	"testing"
)

func take(t *testing.T, n int) *Lease {
	t.Helper()
	l, err := Take(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLeasesAreDisjoint(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 20 {
		for _, a := range take(t, 10).Addrs {
			if seen[a] {
				t.Errorf("%s is leased twice", a)
			}
			seen[a] = true
		}
	}
	if len(seen) != 200 {
		t.Errorf("%d addresses, want 200", len(seen))
	}
}

func TestLeasedPortIsFreeAndNotTheKernels(t *testing.T) {
	t.Parallel()
	for _, a := range take(t, 3).Addrs {
		ln, err := net.Listen("tcp", a)
		if err != nil {
			t.Fatalf("listen on a leased port: %v", err)
		}
		defer ln.Close()
		if port := ln.Addr().(*net.TCPAddr).Port; port < lowest || port >= kernelFirst() {
			t.Errorf("port %d, want %d to %d", port, lowest, kernelFirst()-1)
		}
	}
}

func TestClosedLeaseIsGivenBack(t *testing.T) {
	t.Parallel()
	l := take(t, 1)
	_, port, _ := net.SplitHostPort(l.Addrs[0])
	name := "@skerry-port-" + port
	if held, err := net.Listen("unix", name); err == nil {
		held.Close()
		t.Fatalf("%s is leased, and could be taken", name)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	held, err := net.Listen("unix", name)
	if err != nil {
		t.Fatalf("after close: %v", err)
	}
	held.Close()
}

func TestUsedPortIsPassedOver(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if port := ln.Addr().(*net.TCPAddr).Port; free(port) {
		t.Errorf("port %d is listened on, and free", port)
	}
}

func TestBadCount(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 0, 1 << 16} {
		if _, err := Take(n); err == nil || !strings.Contains(err.Error(), "want 1 to") {
			t.Errorf("Take(%d): %v, want an error with the bound", n, err)
		}
	}
}
