package lighthousecmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse/cluster"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// command runs a command of ours and returns what it printed.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	if status := Run(ctx, args, &stdout, &stderr); status != 0 {
		return stdout.String(), errors.New(stderr.String())
	}
	return stdout.String(), nil
}

func membership(t *testing.T, servers string) (cluster.Membership, error) {
	t.Helper()
	out, err := command(t, "members", "-o", "json", "--lighthouse", servers)
	var m cluster.Membership
	if err == nil {
		err = json.Unmarshal([]byte(out), &m)
	}
	return m, err
}

// Operators see the servers, move the leadership and take one out, through any
// of them, though the first address answers nothing.
func TestOperatorsLookAfterServers(t *testing.T) {
	t.Parallel()
	c := lighthousetest.StartCluster(t, 3, lighthousetest.Options{Timing: "slow"})
	servers := "127.0.0.1:1," + strings.Join(c.Addresses(), ",")
	c.Eventually("all are seen", func() error {
		m, err := membership(t, servers)
		if err != nil || len(m.Members) != 3 || m.Cluster == "" {
			return fmt.Errorf("%+v, %v", m, err)
		}
		for _, s := range m.Members {
			if !s.Voter || !s.Alive {
				return fmt.Errorf("%+v", s)
			}
		}
		return nil
	})
	table, err := command(t, "members", "--lighthouse", servers)
	if err != nil || !strings.Contains(table, "leader") || strings.Count(table, "voter ") < 2 {
		t.Errorf("members printed, with %v:\n%s", err, table)
	}
	to := c.Followers()[0]
	c.Eventually("the leadership is moved", func() error { // refused while the leader has yet to hear from that server again
		out, err := command(t, "transfer-leader", "--lighthouse", servers, c.Servers[to].Addr)
		if err == nil && out != "leader: "+c.Servers[to].Addr+"\n" {
			t.Errorf("transfer-leader printed %q", out)
		}
		return err
	})
	if _, err := command(t, "remove", "--lighthouse", servers, "nobody"); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("remove nobody: %v", err)
	}
	c.Eventually("a server leaves", func() error { // refused while the new leader has yet to hear from all
		_, err := command(t, "leave", "--lighthouse", servers, c.Servers[to].Addr)
		return err
	})
	select {
	case <-c.Servers[to].Done():
	case <-time.After(testkit.Patience):
		t.Error("the server that left still runs")
	}
	if err := c.Servers[to].Stop(); err == nil {
		t.Error("the server that left ended without a word")
	}
}

func TestClusterCommandsRefuse(t *testing.T) {
	t.Parallel()
	alone := lighthousetest.Start(t, nil)
	dir := t.TempDir()
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"members", "--server", alone.Addr}, "alone"}, // as it was called once
		{[]string{"members", "--lighthouse", "127.0.0.1:1"}, "127.0.0.1:1"},
		{[]string{"members", "--timeout=-1s"}, "timeout = -1s"},
		{[]string{"recover"}, "data-dir"},
		{[]string{"recover", "--data-dir", dir}, "--majority-is-lost"},
		{[]string{"recover", "--data-dir", dir, "--majority-is-lost"}, dir},
	} {
		if _, err := command(t, tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q in it", tc.args, err, tc.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "lock")); err == nil {
		t.Error("recover left files in a folder that was no data dir")
	}
}

// Processes found a cluster with flags as an operator types them. Two that are
// killed take the majority along, and bring it back with their data.
func TestThreeProcesses(t *testing.T) {
	t.Parallel()
	_, page := program(t, "--data-dir", t.TempDir(), "--bootstrap-expect=3", "--raft-timing=slow",
		"--raft-address=127.0.0.1:0", "--gossip-address=127.0.0.1:0")
	join := strings.TrimSuffix(strings.TrimPrefix(page, "http://"), "/")
	others := make([]*testkit.Program, 2)
	dirs := []string{t.TempDir(), t.TempDir()}
	for i := range others {
		others[i], _ = program(t, "--data-dir", dirs[i], "--bootstrap-expect=3", "--join", join, "--raft-timing=slow",
			"--raft-address=127.0.0.1:0", "--gossip-address=127.0.0.1:0")
	}
	var cluster string
	whole := func() error {
		m, err := membership(t, join)
		if err != nil {
			return err
		}
		for _, s := range m.Members {
			if !s.Alive || !s.Voter {
				return fmt.Errorf("%+v", m.Members)
			}
		}
		if len(m.Members) != 3 || cluster != "" && cluster != m.Cluster {
			return fmt.Errorf("%+v, want three of cluster %q", m, cluster)
		}
		cluster = m.Cluster
		return nil
	}
	testkit.EventuallyNil(t, "three servers are one cluster", whole)
	for _, p := range others {
		p.Kill()
	}
	testkit.EventuallyNil(t, "the last one says that it has no majority", func() error {
		if healthy(page) {
			return errors.New("healthy")
		}
		return nil
	})
	for i := range others {
		program(t, "--data-dir", dirs[i], "--raft-timing=slow", "--join", join,
			"--raft-address=127.0.0.1:0", "--gossip-address=127.0.0.1:0")
	}
	testkit.EventuallyNil(t, "all are back", whole)
}
