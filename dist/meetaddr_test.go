package dist_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// An address at which the ranks can never meet is refused at once, by every rank that
// could not use it, with the address and what is wrong with it.
func TestInitRefusesUselessAddresses(t *testing.T) {
	driver := pgtest.MemoryDriver(t)
	for _, c := range []struct {
		host, port string
		ranks      []int // that refuse it
		says       string
	}{
		{"224.0.0.1", "29500", []int{0, 1}, "multicast"},
		{"239.255.255.250", "29500", []int{0, 1}, "multicast"},
		{"ff02::1", "29500", []int{0, 1}, "multicast"},
		{"::ffff:224.0.0.1", "29500", []int{0, 1}, "multicast"},
		{"255.255.255.255", "29500", []int{0, 1}, "broadcast"},
		{"fe80::1", "29500", []int{0, 1}, "zone"},
		{"0.0.0.0", "29500", []int{1}, "unspecified"},
		{"::", "29500", []int{1}, "unspecified"},
		{"127.0.0.1", "0", []int{0, 1}, `"0"`},
		{"127.0.0.1", "65536", []int{0, 1}, `"65536"`},
	} {
		for _, rank := range c.ranks {
			t.Setenv(dist.EnvMasterAddr, c.host)
			t.Setenv(dist.EnvMasterPort, c.port)
			for _, method := range []string{"tcp://" + net.JoinHostPort(c.host, c.port), "env://"} {
				ctx, cancel := context.WithTimeout(t.Context(), pgtest.Bound)
				_, err := dist.Init(ctx, dist.InitConfig{Backend: driver, Method: method, Rank: new(rank), WorldSize: 2})
				cancel()
				if err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), c.says) ||
					!strings.Contains(err.Error(), c.host) {
					t.Errorf("rank %d at %s (%s port %s): %v, want it refused for %q", rank, method, c.host, c.port, err, c.says)
				}
			}
		}
	}
}
