package dist_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/dist"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/store"
)

// What torchrun sets is read: that it started the process, and as which of its host.
func TestLaunchVariables(t *testing.T) {
	t.Setenv(dist.EnvElasticRun, "")
	if dist.LaunchedFromEnv() {
		t.Error("launched by torchrun without its run id")
	}
	t.Setenv(dist.EnvElasticRun, "none")
	if !dist.LaunchedFromEnv() {
		t.Error("torchrun's run id is not seen")
	}
	for _, bad := range []string{"", "first"} {
		t.Setenv(dist.EnvLocalRank, bad)
		if n, err := dist.LocalRankFromEnv(); err == nil || !strings.Contains(err.Error(), dist.EnvLocalRank) {
			t.Errorf("%s=%q is %d, %v; want an error that names it", dist.EnvLocalRank, bad, n, err)
		}
	}
	t.Setenv(dist.EnvLocalRank, "3")
	if n, err := dist.LocalRankFromEnv(); n != 3 || err != nil {
		t.Errorf("local rank %d, %v; want 3", n, err)
	}
}

// Where torchrun's agent serves the store, rank 0 does not.
func TestAgentStore(t *testing.T) {
	server, err := store.NewServer(store.ServerConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	host, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(dist.EnvMasterAddr, host)
	t.Setenv(dist.EnvMasterPort, port)
	t.Setenv(dist.EnvAgentStore, "True")
	driver := pgtest.MemoryDriver(t)
	initAll(t, 2, func(rank int) dist.InitConfig {
		return dist.InitConfig{Backend: driver, Rank: new(rank), WorldSize: 2}
	}, sumsAndNames)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
