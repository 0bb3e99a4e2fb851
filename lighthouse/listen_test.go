package lighthouse_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/lighthouse"
)

// A port that other hosts reach needs a guard, or the word that it shall be open;
// and who is told of a server can reach it.
func TestListenersNeedAGuard(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	secret := base64.StdEncoding.EncodeToString(make([]byte, 32))
	if err := os.WriteFile(token, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := func() [][]byte { return [][]byte{make([]byte, 32)} }
	type config = lighthouse.Config
	clustered := func(c *config) {
		c.DataDir, c.Cluster.Expect, c.Cluster.Join = t.TempDir(), 3, []string{"192.0.2.2:29510", "192.0.2.3:29510"}
		c.Advertise = "192.0.2.1:29510"
	}
	for name, tc := range map[string]struct {
		set  func(*config)
		want []string // of the refusal; none: it listens
	}{
		"the default":      {func(c *config) {}, nil},
		"IPv6's loopback":  {func(c *config) { c.Listen = "[::1]:0" }, nil},
		"every interface":  {func(c *config) { c.Listen = ":0" }, []string{"Listen = :0 (--bind): other hosts reach :0", "--token-file", "--open"}},
		"0.0.0.0":          {func(c *config) { c.Listen = "0.0.0.0:0" }, []string{"0.0.0.0:0", "--tls-ca", "--open"}},
		"with a token":     {func(c *config) { c.Listen, c.Guard.TokenFile = ":0", token }, nil},
		"open":             {func(c *config) { c.Listen, c.Guard.Open = ":0", true }, nil},
		"raft's port":      {func(c *config) { clustered(c); c.Cluster.RaftAddress = ":0" }, []string{"--raft-address", "other hosts reach :0"}},
		"gossip, no key":   {func(c *config) { clustered(c); c.Listen, c.Guard.TokenFile = ":0", token }, []string{"--gossip-address", "--gossip-key-file"}},
		"gossip, with one": {func(c *config) { clustered(c); c.Listen, c.Guard.TokenFile, c.Cluster.GossipKeys = ":0", token, keys }, nil},
		"a cluster, open":  {func(c *config) { clustered(c); c.Listen, c.Guard.Open = ":0", true }, nil},
		"advertised beyond loopback": {func(c *config) { c.Listen, c.Advertise = "127.0.0.1:2951", "head:2951" },
			[]string{"Listen = 127.0.0.1:2951 (--bind) is loopback", "Advertise = head:2951", "set --bind :2951"}},
		"joins beyond loopback": {func(c *config) { clustered(c); c.Advertise, c.Guard.Open = "", true },
			[]string{"is loopback", "Cluster.Join = 192.0.2.2:29510", "set --bind :0"}},
		"no such name": {func(c *config) { c.Listen = "nohost.invalid:0" }, []string{`find the address of "nohost.invalid"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := lighthouse.DefaultConfig()
			if cfg.Listen != "127.0.0.1:29510" {
				t.Errorf("the default listens at %s", cfg.Listen)
			}
			cfg.Listen = "127.0.0.1:0"
			tc.set(&cfg)
			s, err := lighthouse.New(cfg)
			if err == nil {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if tc.want != nil {
					t.Errorf("%s: it listens at %v", name, s.Addr())
				}
				return
			}
			if tc.want == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", name, err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q", name, err, want)
				}
			}
		})
	}
}
