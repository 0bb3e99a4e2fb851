// Package training trains with the real parts in one process: a lighthouse
// with its raft log, managers, and TCP process groups over loopback. What needs
// real processes and signals is in test/chaos.
package training
