// Package worlds runs the real shells in virtual time: manager.Manager with its
// server, session and heals, and lighthouse.Server with its jobs, sessions and
// raft, in testing/synctest bubbles over an in-memory network (nettest). Only the data plane
// (pgtest.Memory) and the heal transport are stand-ins, so that links, transfers and
// deaths are the world's to arrange.
//
// internal/sim runs the rules with a model of the member; this package runs the
// member. It is slower by orders of magnitude, and sees what a model leaves out:
// calls that end by their ctx, requests that outlive a step, a trainer that does
// something between two steps, goroutines that meet in another order.
//
// # Worlds
//
//	inWorld(t, options{replicas: 2}, func(w *world) { w.reaches(100, 10*time.Second) })
//
// A named world (TestWorld…) is a script: what happens when, and what must be true
// afterwards. A seed (TestSeeds) draws replicas, manners, rules and faults, in two
// phases: in the first everything may fail and nothing may be wrong; in the second
// the faults are over, and all that behave must train together.
//
//	go test ./test/worlds -run TestSeeds -worlds.seeds 2000 -worlds.from 1
//
// What a seed may draw is the list of traits in draw_test.go, and the faults that are in
// every world. Not drawn: bits that flip (internal/sim draws them; here they are scripts,
// for who is left of two may hold the wrong state, rightly), views (lighthouse's
// TestManyTrain), a link of the data plane that is cut one way (over TCP it is cut both
// ways, with another error; test/chaos has network namespaces).
//
// # Servers
//
// In inWorldOfServers the lighthouse is three servers, with their raft, gossip and disks, each on
// a host of its own: they are killed, stopped, cut off from each other or from replicas, both ways
// or one. TestSeedsOfServers draws that.
//
// # What checkers look at
//
// What is true of the world: which process is up, which link is whole, whether a
// trainer computes or hangs, and the bytes of each replica's parameters at each
// position. Never at what a manager or a lighthouse believes of another.
//
// # Repeating
//
// A bubble's clock is virtual, its scheduler is not: goroutines that are runnable at
// one instant run in any order. A seed gives the same world and the same faults at
// the same instants; a finding that needs a certain order may take some repetitions,
// which the printed line makes.
package worlds
