// Package many runs one job of up to ten thousand replicas in virtual time, from a seed, with the
// production rules, and says what its steps and its reconfigurations cost.
//
// The leader's side is quorum.Machine, its ledger and shell.JobRules; each replica is a quorum.Rank
// with its quorum.Polls, and a trainer that computes, reduces, votes by ballots and joins, as the
// manager's does. What a replica and the lighthouse tell each other goes through its encoding
// (package wire), and is counted. Package checker watches while the run goes on.
//
// # Usage
//
//	r, err := many.Run(ctx, many.Options{Replicas: 1000, Duration: 20 * time.Second, Seed: 1, …}, many.DefaultCosts())
//	r.Write(os.Stdout)
//
// # Cost model
//
// Virtual time passes by what [Costs] says, and by nothing else: how long this process works is no
// part of it. n is the number of members, c the cores of a host.
//
//	lighthouse   one queue: a message takes Message + KiB × In (out: Out), a beat takes Beat, a decision
//	             n × Decide, all by c; an answer leaves when it is encoded and its host's interface of
//	             10 Gbit/s is free; a write of raft takes Write
//	a step       the trainer computes for Step; then all exchange gradients: 2 (n-1) messages and
//	             2 (n-1)/n × 25 MiB at each replica (Part, PartKiB), from when the last is there; then
//	             ballots: n-1 to and n-1 from each, with Ballot for each pair, by c
//	a death      each peer sees its socket end after Detect at most, the lighthouse after Latency; the
//	             first that sees it tells all others (n-1 aborts, Abort each), which is how most know it
//	a quorum     each member decodes its answer (KiB × Take, n × Name in a view), comes to the store of
//	             the primary (Meet), looks up whom it dials (Get), one queue for all; it keeps edges
//	             (Kept each) or makes new ones (New each); one that is behind heals for Heal
//
// Edges, aborts and ballots are those of one full mesh, as package pg/tcp makes it.
//
// # What is left out
//
// A host's processor and interface serve one replica, nothing else. Heals are times, not bytes.
// Raft is one write that takes a time; a change of leader is a pause, after which all come again.
//
// # Concurrency
//
// A run is owned by its caller's goroutine; runs share nothing. The same options and costs give the same run.
package many
