// Package conformance runs the grid of package pg/pgtest: every verb, dtype,
// reduce op, size from nothing to 32 MiB and world size from 1 to 8, over every
// backend and decorator, with all ranks in one process and with every rank in
// a process of its own. Each result is compared byte for byte with a reference
// that folds in rank order.
//
// Plain tests run a sample; the whole is
//
//	make conformance
//
// # Design
//
// A row is a verb with a dtype and a reduce op. Of rows, sizes and worlds
//
//   - tcp, tcp over shared memory, and real processes over either, have the
//     whole product up to 1 MiB; of 8 and 32 MiB each row with each size once, in
//     worlds that take turns, so that each verb meets each size in each world;
//   - tcp with several streams per edge, a Baby, the backend that chooses by device, the one in
//     memory and every decorator have each row once with each size up to 1 MiB,
//     which meets each row with each world too, and of larger sizes each verb in
//     each world.
//
// What is left out repeats what is there: which kernel folds is a matter of
// dtype, op and length; which path a message takes, of verb, size and world;
// a decorator is the same whatever is below, and never looks at bytes.
// TestCoverPairs and TestCoverVerbs of pgtest check the design. The dummy
// backend is in package dummy's own tests, NCCL in package nccl's.
//
// # Running it
//
// First the plan is printed: for every suite how many cells are to be run, and how
// many are not and why. It is cut into numbered units of a few seconds. Each is
// printed when it is done; one that fails is reported, and the rest goes on. A
// summary follows. A part of it, from where an earlier run was ended, in pieces:
//
//	go test ./test/conformance -run TestGrid -v -timeout 0 -conformance.all -conformance.from 120
//	go test ./test/conformance -run TestGrid -v -timeout 0 -conformance.all -conformance.shard 2/3
//	go test ./test/conformance -run TestGrid -v -timeout 0 -conformance.all -conformance.for 9m
//
// A sample of another seed, of one suite alone (each unit but the first has a
// number behind the suite's name):
//
//	go test ./test/conformance -run 'TestGrid/^tcp(#|$)' -v -conformance.seed 7 -conformance.sample 50
package conformance
