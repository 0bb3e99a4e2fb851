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
// A random run prints its seed and each fault with its time.
package chaos
