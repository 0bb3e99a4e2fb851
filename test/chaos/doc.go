// Package chaos trains for real while faults are injected into real processes:
// signals from outside, and deaths at the points that internal/failpoint names, where a
// trainer sends itself SIGKILL. Every scenario ends with the same
// closing checks: at each committed step all replicas hold the same bytes,
// every step was committed once, the run reached its end, and nothing was left
// behind.
//
//	go test ./test/chaos                                # every scenario once
//	go test ./test/chaos -run Random -chaos.faults 500  # a long random run
//	go test ./test/chaos -run Random -chaos.seed 7      # that run again
//	go test ./test/chaos -run Point -chaos.points       # a death at each point
//
// Drills are judged by their times, too, if they last: replicas that come and go
// (make churn), and one that is wrong for ever (make causes). A few seconds of each
// are among the scenarios.
//
// A random run prints its seed and each fault with its time. One has certificates and tokens
// (TestRandomGuarded), one has its backends in children (TestRandomBabies).
//
// What goes wrong, and where that is tried:
//
//	a replica dies; heals; its donor dies; all die     TestKill…, TestRestart…, TestDiesAtEachPoint, TestChurn
//	a process stops for a while                        TestStopAndContinue, TestStopLighthouse, TestRandom
//	connections end between replicas that live         TestCutLinks, TestRandom
//	a trainer hangs, calls other collectives, cannot heal, is late; a rank dies    TestCauses
//	too little of a processor; a full disk             TestStarved, TestFullDisk
//	the lighthouse dies, hangs, loses a replica's way  TestRestartLighthouse, TestRandom; test/failover
//	hosts that do not reach each other, one way or both, for a while or for long   test/integration/hosts
//	bytes that are late, wrong or lost                 test/integration/links
//	too little memory, clocks that jump, disks that fail, certificates that end    test/integration/baddays
//	a start of hundreds at once; attacks               test/hostile
//	whole worlds in virtual time                       test/worlds, internal/sim
//	a user's own job                                   skerry chaos (docs/CHAOS.md)
package chaos
