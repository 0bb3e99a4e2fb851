package netif_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/pg/netif"
)

// TestInterfaces: names and prefixes choose, marks exclude, and what matches
// nothing is said with what there is.
func TestInterfaces(t *testing.T) {
	if got := strings.Join(netif.Parse("^docker, lo"), " "); got != "^docker ^lo" {
		t.Errorf("parsed as %q", got)
	}
	for _, names := range [][]string{{"lo"}, {"=lo"}, {"l"}, {"=lo", "l"}} {
		ips, err := netif.Addrs(names)
		if err != nil || !ips[0].IsLoopback() {
			t.Errorf("%v chose %v: %v", names, ips, err)
		}
	}
	for _, names := range [][]string{{"none"}, {"lo", "none"}, {"none", "lo"}} {
		if _, err := netif.Addrs(names); err == nil || !strings.Contains(err.Error(), "is none") || !strings.Contains(err.Error(), "there are lo") {
			t.Errorf("%v: %v, want what is missing, and what there is", names, err)
		}
	}
	if ips, err := netif.Addrs([]string{"lo", "^lo"}); err == nil {
		t.Errorf("excluded, and chosen: %v", ips)
	}
}

// The variables of interfaces: ours before Gloo's before NCCL's.
func TestInterfacesFromEnv(t *testing.T) {
	names := []string{netif.Env, netif.EnvGloo, netif.EnvNCCL}
	for _, name := range names {
		t.Setenv(name, "")
	}
	if got := netif.FromEnv(); got != nil {
		t.Errorf("none is set: %v", got)
	}
	for _, name := range slices.Backward(names) {
		t.Setenv(name, "^"+name+",lo")
		if got, want := netif.FromEnv(), []string{"^" + name, "^lo"}; !slices.Equal(got, want) {
			t.Errorf("%s is set: %v, want %v", name, got, want)
		}
	}
}
