//go:build mpi && cgo

package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/examples/mpi"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// asRank says, in the environment, that a process is a rank under mpirun.
const asRank = "SKERRY_MPI_RANK"

func TestMain(m *testing.M) {
	if os.Getenv(asRank) == "" {
		goleak.VerifyTestMain(m)
	}
	if err := serveRank(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveRank runs the grid as one rank of an MPI job.
func serveRank() error {
	rank, size, err := mpi.Start()
	if err != nil {
		return err
	}
	g := pg.NewGroup(mpi.New())
	c := pg.Config{StoreAddress: "none/1", Rank: rank, Cluster: "mpi", QuorumID: 1}
	for r := range size {
		c.ReplicaIDs = append(c.ReplicaIDs, fmt.Sprintf("rank-%d", r))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*pgtest.Bound)
	defer cancel()
	if err := g.Configure(ctx, c); err != nil {
		return err
	}
	if err := g.Configure(ctx, c); !errors.Is(err, pg.ErrUsedPrefix) {
		return fmt.Errorf("configured twice: %w, want ErrUsedPrefix", err)
	}
	c.StoreAddress, c.QuorumID = "none/2", 2
	if err := g.Configure(ctx, c); err != nil {
		return err
	}
	kinds := slices.DeleteFunc(pg.Kinds(), func(k pg.Kind) bool { return k == pg.KindBallot })
	grid := pgtest.Grid{Sample: 40, Seed: 1, MaxBytes: 1 << 20}
	cells, report := pgtest.Split(grid.Cells(size), kinds, tensor.DTypes())
	if err := pgtest.RunCells(ctx, g, cells); err != nil {
		return fmt.Errorf("rank %d: %w", rank, err)
	}
	if err := errors.Join(meets(ctx, g), tooLong(ctx, g)); err != nil {
		return fmt.Errorf("rank %d: %w", rank, err)
	}
	if rank == 0 {
		fmt.Printf("world %d: %s\n", size, report.String())
	}
	return errors.Join(g.Close(), mpi.Stop())
}

// meets checks that no rank leaves a barrier before the last has come to it, whichever that
// is. The processes share the host's clock.
func meets(ctx context.Context, g *pg.Group) error {
	for late := range g.Size() {
		if g.Rank() == late {
			<-time.After(20 * time.Millisecond) // the others wait for it
		}
		came := time.Now().UnixNano()
		if err := g.Barrier(ctx); err != nil {
			return err
		}
		left := time.Now().UnixNano()
		all := make([]int64, g.Size())
		if err := g.AllGatherIntoTensor(ctx, tensor.Of([]int64{came}), tensor.Of(all)); err != nil {
			return err
		}
		if last := slices.Max(all); left < last {
			return fmt.Errorf("left a barrier %v before the last rank came", time.Duration(last-left))
		}
	}
	return nil
}

// tooLong checks that a message which is longer than the receiver's tensor is a mismatch,
// after which the receiver's group is broken.
func tooLong(ctx context.Context, g *pg.Group) error {
	switch g.Rank() {
	case 1:
		return g.Send(ctx, tensor.New(tensor.Int64, 8), pg.Envelope{Peer: 0, Tag: 1})
	case 0:
		if g.Size() == 1 {
			return nil
		}
		_, err := g.Recv(ctx, tensor.New(tensor.Int64, 4), pg.Envelope{Peer: pg.AnySource, Tag: 1})
		if !errors.Is(err, pg.ErrMismatch) || !errors.Is(g.Err(), pg.ErrMismatch) {
			return fmt.Errorf("message of 8 elements for 4: %w, group %w; want ErrMismatch of both", err, g.Err())
		}
	}
	return nil
}

// TestGrid: the grid under mpirun, with a rank per process.
func TestGrid(t *testing.T) {
	mpirun, err := exec.LookPath("mpirun")
	if err != nil {
		t.Skip("mpirun is not installed")
	}
	for _, size := range []int{1, 2, 4} {
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, mpirun, "--allow-run-as-root", "--oversubscribe",
			"--mca", "mpi_yield_when_idle", "1", "-n", fmt.Sprint(size), os.Args[0])
		cmd.Env = append(os.Environ(), asRank+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "cells run") {
			t.Fatalf("world of %d: %v\n%s", size, err, out)
		}
		t.Logf("%s", out)
	}
}
