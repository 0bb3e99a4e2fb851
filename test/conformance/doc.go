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
// which prints, for every backend, how many cells it ran and which it skipped.
// A sample of another seed, or one backend alone:
//
//	go test ./test/conformance -run 'TestGrid/tcp' -v -conformance.seed 7 -conformance.sample 50
package conformance
