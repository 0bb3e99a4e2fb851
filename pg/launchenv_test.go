package pg_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// What torchrun sets is read: that it started the process, and as which of its host.
func TestLaunchVariables(t *testing.T) {
	t.Setenv(pg.EnvElasticRun, "")
	if pg.LaunchedFromEnv() {
		t.Error("launched by torchrun without its run id")
	}
	t.Setenv(pg.EnvElasticRun, "none")
	if !pg.LaunchedFromEnv() {
		t.Error("torchrun's run id is not seen")
	}
	for _, bad := range []string{"", "first"} {
		t.Setenv(pg.EnvLocalRank, bad)
		if n, err := pg.LocalRankFromEnv(); err == nil || !strings.Contains(err.Error(), pg.EnvLocalRank) {
			t.Errorf("%s=%q is %d, %v; want an error that names it", pg.EnvLocalRank, bad, n, err)
		}
	}
	t.Setenv(pg.EnvLocalRank, "3")
	if n, err := pg.LocalRankFromEnv(); n != 3 || err != nil {
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
	t.Setenv(pg.EnvMasterAddr, host)
	t.Setenv(pg.EnvMasterPort, port)
	t.Setenv(pg.EnvAgentStore, "True")
	driver := memoryDriver(t)
	initAll(t, 2, func(rank int) pg.InitConfig {
		return pg.InitConfig{Backend: driver, Rank: new(rank), WorldSize: 2}
	}, sumsAndNames)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The variables of interfaces: ours before Gloo's before NCCL's.
func TestInterfacesFromEnv(t *testing.T) {
	names := []string{pg.EnvInterfaces, pg.EnvGlooInterfaces, pg.EnvNCCLInterfaces}
	for _, name := range names {
		t.Setenv(name, "")
	}
	if got := pg.InterfacesFromEnv(); got != nil {
		t.Errorf("none is set: %v", got)
	}
	for _, name := range slices.Backward(names) {
		t.Setenv(name, "^"+name+",lo")
		if got, want := pg.InterfacesFromEnv(), []string{"^" + name, "^lo"}; !slices.Equal(got, want) {
			t.Errorf("%s is set: %v, want %v", name, got, want)
		}
	}
}
