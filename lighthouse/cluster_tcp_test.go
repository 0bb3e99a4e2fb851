package lighthouse_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// Three servers that know one address found one cluster over real sockets; it
// goes on without its leader, and with it when it is back.
func TestThreeServersFoundAClusterAndOutliveTheirLeader(t *testing.T) {
	t.Parallel()
	c := lighthousetest.StartCluster(t, 3, lighthousetest.Options{})
	old := c.Leader()
	status, err := c.Servers[old].Lighthouse.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Stop(old)
	next := c.Leader()
	after, err := c.Servers[next].Lighthouse.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after.Cluster != status.Cluster || after.Cluster == "" {
		t.Errorf("cluster %q after the leader's end, want %q", after.Cluster, status.Cluster)
	}
	c.Restart(old)
	for i, s := range c.Servers {
		c.Eventually(fmt.Sprintf("server %d knows the leader and all", i), func() error {
			addr, self, ok := s.Lighthouse.Leader()
			if !ok || addr != c.Servers[c.Leader()].Addr || self != (i == c.Leader()) {
				return fmt.Errorf("leader %s, self %v, ok %v", addr, self, ok)
			}
			want := slices.Sorted(slices.Values(c.Addresses()))
			if d := cmp.Diff(want, s.Lighthouse.Peers()); d != "" {
				return fmt.Errorf("peers (-want +got):\n%s", d)
			}
			return nil
		})
	}
}

func sortedStrings(all []string) []string { return slices.Sorted(slices.Values(all)) }
