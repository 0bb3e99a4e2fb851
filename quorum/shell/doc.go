// Package shell holds the rules that the process around a [quorum.Machine] asks, beside the
// machine itself: they are about a server that has many jobs and a clock of its own, not about
// one job's quorums. Like package quorum it is pure: no I/O, no goroutine, no lock, no clock;
// the time in hand is an argument, and same input gives the same output. So the lighthouse and
// the simulator use the same code.
//
//	[JobRules]  a job's rules in force, and how often its sessions beat (beat_scale.go)
//	[Turns]     whether the process was descheduled, which goes to Machine.Doubt
//	[Idle]      whether a job is to be forgotten
//	[MakeRoom]  which of a server's jobs makes room for another
//
// Nothing here is safe for concurrent use; each value is owned by the goroutine that has it.
package shell
