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
//   - the backend in memory and the one that chooses by device have each row once
//     with each size, and once or twice in each world;
//   - a Baby, and every decorator, have the same up to 1 MiB, and of larger
//     sizes each verb in each world.
//
// What is left out repeats what is there: which kernel folds is a matter of
// dtype, op and length; which path a message takes, of verb, size and world;
// a decorator is the same whatever is below, and never looks at bytes.
// TestCoverPairs and TestCoverVerbs of pgtest check the design. A Dummy is in
// package pg's own tests, NCCL in package nccl's.
//
// # Running it
//
// The plan is cut into numbered units of a few seconds. Each is printed when it is
// done; one that fails is reported, and the rest goes on. The summary has, for
// every suite, the cells run, those skipped with the reasons, and the units
// that failed. A part of it, from where an earlier run was ended, in pieces:
//
//	go test ./test/conformance -run TestGrid -v -timeout 0 -conformance.all -conformance.from 120
//	go test ./test/conformance -run TestGrid -v -timeout 0 -conformance.all -conformance.shard 2/3
//	go test ./test/conformance -run TestGrid -v -timeout 0 -conformance.all -conformance.for 9m
//
// A sample of another seed, or one suite alone:
//
//	go test ./test/conformance -run 'TestGrid/tcp$' -v -conformance.seed 7 -conformance.sample 50
package conformance
