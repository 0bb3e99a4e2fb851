package dist

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
)

// The variables of env:// and of torchrun.
const (
	EnvMasterAddr = "MASTER_ADDR" // where rank 0 is; not needed by rank 0 itself, which listens on loopback without it, or a token
	EnvMasterPort = "MASTER_PORT" // a free port there
	EnvRank       = "RANK"
	EnvWorldSize  = "WORLD_SIZE"
	EnvLocalRank  = "LOCAL_RANK"
	// EnvAgentStore is set by torchrun when its agent serves the store, so that
	// rank 0 does not.
	EnvAgentStore = "TORCHELASTIC_USE_AGENT_STORE"
	// EnvElasticRun is torchrun's name of the run.
	EnvElasticRun = "TORCHELASTIC_RUN_ID"
)

// LaunchedFromEnv tells whether torchrun started this process, by its run id.
func LaunchedFromEnv() bool { return os.Getenv(EnvElasticRun) != "" }

// LocalRankFromEnv is this process's index among those of its host.
func LocalRankFromEnv() (int, error) {
	n, err := intFromEnv(EnvLocalRank)
	if err == nil && n == nil {
		err = fmt.Errorf("dist: %s is not set", EnvLocalRank)
	}
	if err != nil {
		return 0, err
	}
	return *n, nil
}

// intFromEnv is the number in a variable, or nil if it is not set.
func intFromEnv(name string) (*int, error) {
	s := os.Getenv(name)
	if s == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return nil, fmt.Errorf("dist: %s = %q, want a number", name, s)
	}
	return &n, nil
}

// meetFromEnv is env://: rank 0 serves the store where the others reach it at
// MASTER_ADDR:MASTER_PORT; see storePlace.
// Rank and world size come from the call, the URL or RANK and WORLD_SIZE.
func meetFromEnv(ctx context.Context, r RendezvousRequest) (*Rendezvous, error) {
	rankHere, err := intFromEnv(EnvRank)
	sizeHere, err2 := intFromEnv(EnvWorldSize)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	if sizeHere == nil {
		sizeHere = new(0)
	}
	rank, size, err := r.Place(rankHere, *sizeHere)
	if err != nil {
		return nil, fmt.Errorf("%w (or in %s and %s)", err, EnvRank, EnvWorldSize)
	}
	host, port := os.Getenv(EnvMasterAddr), os.Getenv(EnvMasterPort)
	if port == "" {
		return nil, fmt.Errorf("dist: %s is not set: a free port on the host of rank 0", EnvMasterPort)
	}
	if host == "" && rank != 0 {
		return nil, fmt.Errorf("dist: %s is not set: the address of the host of rank 0", EnvMasterAddr)
	}
	serve := rank == 0 && os.Getenv(EnvAgentStore) != "True"
	m := &Rendezvous{Rank: rank, WorldSize: size, Address: net.JoinHostPort(host, port)}
	return m, m.overTCP(ctx, m.Address, serve, r)
}
