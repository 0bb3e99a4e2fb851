// Package chaos trains for real while faults are injected into real processes:
// signals from outside, and deaths at the points that internal/failpoint names, where a
// trainer sends itself SIGKILL. Every scenario ends with the same
// closing checks: at each committed step all replicas hold the same bytes,
// every step was committed once, the run reached its end, and nothing was left
// behind.
//
//	go test ./test/chaos                                # some scenarios
//	SKERRY_TEST=all go test ./test/chaos                # every scenario once
//	go test ./test/chaos -run Random -chaos.faults 500  # a long random run
//	go test ./test/chaos -run Random -chaos.seed 7      # that run again
//	go test ./test/chaos -run Point -chaos.points       # a death at each point
//	make soak FAULTS=10000                              # with clocks that jump, and upgrades; the report is kept
//	make soak DURATION=8h                               # for so long, however many faults that makes
//
// Drills are judged by their times, too, if they last: replicas that come and go
// (make churn), and one that is wrong for ever (make causes). A few seconds of each
// are among the scenarios.
//
// # Random runs
//
// TestRandom makes worlds, one after the other: three servers and five replicas on three hosts,
// each a network namespace whose packets the test carries, half of the worlds with
// certificates, a token and a gossip key, a quarter of the replicas with their backends in
// children. Faults of replicas, servers, packets and clocks come side by side, long before the
// last ones are over, in the shares of the menu in menu_test.go, as deck_test.go deals them. At
// most two of the replicas are in a fault's hands, or have not committed since, so that one that
// has the newest state is always well; where all die, the run begins anew. Of the servers one
// is, or all are. Where there are certificates and tokens a clock is off by minutes, as far as
// both bear it; elsewhere by up to a year. A world draws all from its seed; what a fault then
// meets depends on the machine.
//
// One check closes each world (judge_test.go): each replica commits a step after the last
// fault; whatever was committed at one step has the same bytes, is the sum of its contributors,
// computed again, each in it once, and as many as the divisor says; what replicas were told of
// quorums fits into one order; all end with status 0, and nothing is left.
//
// What this machine cannot do is left out, and the report says so: namespaces, mounts and
// cgroups take root, clocks that jump a build of their own (-chaos.clocks), an upgrade the
// commit that testdata/earliest names, the oldest that may run beside this tree's
// (-chaos.earlier; see docs/OPERATIONS.md). Its counter is this tree's source, compiled there.
// A search for an order of what replicas were told that takes too long is given up, and the
// report says of that world that its history was not checked to its end.
//
// Of a world that something is wrong with, the ends of the logs are printed, and all of them are
// kept. Namespaces, cgroups and mounts have the test's process in their names: those that a
// killed test has left are removed when the tests run the next time.
//
// # What goes wrong, and where that is tried
//
// Random is TestRandom's menu.
//
//	a replica dies; heals; its donor dies; all die     Random; TestKill…, TestRestart…, TestDiesAtEachPoint, TestChurn
//	all but one die, or all, and start at one moment   Random; TestKillAllButOne, TestKillAllAndGoOn; of hundreds: test/hostile
//	a process stops for a while                        Random; TestStopAndContinue, TestStopLighthouse
//	connections end between replicas that live         TestCutLinks; Random, where there are no namespaces
//	a trainer hangs                                    Random; TestCauses
//	a replica calls other collectives, has another model, cannot heal    Random; TestCauses, TestStateThatDoesNotFit
//	a replica is late; slow heals; a rank dies         TestCauses; test/integration/mesh
//	a wake-up in shared memory is lost                 pg/tcp's models (make wakeups); Random would stand still
//	a donor dies in a heal, the first witness is late  Random, TestKillDonorDuringHeal
//	too little of a processor; out of memory           Random; TestStarved, test/integration/baddays
//	a full disk: of servers, of checkpoints            Random; TestFullDisk
//	a disk that fails                                  test/integration/baddays
//	servers die, one, the leader, all, or stop         Random; TestRestartLighthouse, test/failover
//	all servers lose their disks                       test/failover, test/history
//	a host is cut off; two hosts are, one way or both  Random; for long: test/integration/hosts, links
//	packets are late, or lost                          Random; test/integration/links
//	a bit flips on the wire                            Random; test/integration/links
//	a bit flips in a state at rest                     Random; manager's and test/worlds' parity
//	servers and replicas of two builds, back and forth Random
//	clocks jump                                        Random; test/integration/baddays
//	TLS, tokens; backends in children                  Random; certificates that end: test/integration/baddays
//	attacks                                            test/hostile
//	whole worlds in virtual time                       test/worlds, internal/sim
//	a user's own job                                   skerry chaos (docs/CHAOS.md)
//
// Packets are held back, lost and spoiled by the test that carries them, not by tc netem, which
// many kernels lack. What servers say is not spoiled: it is under TCP's checksum alone where
// there is no TLS.
package chaos
