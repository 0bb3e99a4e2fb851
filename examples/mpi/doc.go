// Package mpi is a backend of somebody else's: it shows how one is made and
// registered, over MPI (Debian: libopenmpi-dev, openmpi-bin).
//
//	mpi.Start(); defer mpi.Stop()
//	mpi.Register()
//	w, err := dist.Init(ctx, dist.InitConfig{Backend: "mpi", Rank: &rank, WorldSize: size, …})
//
// It is built with the tag mpi, and checked against the grid of pg/pgtest by
// real processes under mpirun:
//
//	go test -tags mpi ./examples/mpi
//
// Data is exchanged with MPI's nonblocking collectives as bytes, in memory of C,
// so that an op can be given up while MPI still holds what it was given. Sums
// are folded by tensor.Reduce in rank order, so they are as exact as everywhere.
//
// What it cannot do, since MPI cannot: be configured for any other group than
// all processes of the job, tell peers of an abort, or survive a process that
// dies. Ballots and tags above MPI's bound are pg.ErrUnsupported.
package mpi
