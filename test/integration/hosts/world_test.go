package hosts

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// TestWorldOfHosts: the ranks of a world meet at rank 0 by a name that rank 0's own
// host knows as loopback, as Debian has it, and by an address that is no interface's,
// as that of a service; and rank 0 serves no stranger.
func TestWorldOfHosts(t *testing.T) {
	t.Parallel()
	f := newFabric(t, 3, false)
	const service = "10.99.0.1"
	f.knows(0, "127.0.1.1 head\n")
	f.may("-n", f.name(0), "route", "add", "local", service, "dev", "lo") // accepted, and nowhere configured
	for i := 1; i < f.hosts; i++ {
		f.knows(i, f.address(0)+" head\n")
		f.may("-n", f.name(i), "route", "add", service, "via", f.address(0))
	}
	for name, c := range map[string]struct{ master, token, open string }{
		"name, open":           {"head", "", "1"},
		"name, with a token":   {"head", "a token of sixteen bytes", ""},
		"service, open":        {service, "", "1"},
		"service, with one":    {service, "a token of sixteen bytes", ""},
		"its address, guarded": {f.address(0), "a token of sixteen bytes", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var ranks []*testkit.Program
			for i := range f.hosts {
				ranks = append(ranks, f.startRank(t, i, c.master, c.token, c.open))
			}
			for i, p := range ranks {
				status := p.Exits()
				if text := p.String(); status != 0 || !strings.Contains(text, fmt.Sprintf("rank %d of 3: sum 6 ", i)) {
					t.Errorf("rank %d: status %d, %s", i, status, text)
				}
			}
		})
	}
	t.Run("neither", func(t *testing.T) {
		p := f.startRank(t, 0, "head", "", "")
		status := p.Exits()
		if text := p.String(); status != 1 || !strings.Contains(text, "other hosts reach") || !strings.Contains(text, "SKERRY_OPEN=1") {
			t.Errorf("status %d, %s", status, text)
		}
	})
}

// startRank starts one rank of a world of a rank on each host.
func (f *fabric) startRank(t *testing.T, i int, master, token, open string) *testkit.Program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return f.start(t, i, []string{
		envRank + "=" + token, "SKERRY_OPEN=" + open, "MASTER_ADDR=" + master, "MASTER_PORT=29500",
		fmt.Sprint("RANK=", i), fmt.Sprint("WORLD_SIZE=", f.hosts),
	}, self)
}
