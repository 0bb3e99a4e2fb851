// Package goodput measures how much of its time a job spends on steps that count, while its
// replicas are killed, stopped and cut off.
//
// Each replica and each of the lighthouse's servers is a process. A step takes a given time, in
// which a replica sleeps as it would wait for a device, and computes real gradients of package
// digits beside. Faults come by a seed: SIGKILL and a start again at once; SIGSTOP, and SIGCONT
// after a while; a partition, in which no packet reaches the replica or leaves it. For partitions
// each process has a network namespace of its own, with a cable to a switch, see fabric: those
// take root on Linux.
//
// What is counted, from the first step that all replicas have committed to the end of the time:
//
//   - goodput: committed steps x the time of a step that nothing disturbs, over the time that
//     there was. The undisturbed step is measured in the same run, as the median between faults,
//     so the exchange of gradients is part of it: what is missing to 1 is what faults cost. It is
//     never told as more than 1: if the steps under faults were faster than those that count as
//     undisturbed, as on a host whose load falls, it is 1.
//   - compute: committed steps x the device's time of a step, over the time that there was:
//     what is missing is what faults, the exchange and a busy host cost.
//   - replica_compute: the same, where a step counts in as far as replicas took part in it.
//
// torchft can take the place of ours: its lighthouse, its Manager and Gloo, under a trainer that
// does the same.
//
// Package ledger's rules are pure: a Ledger takes events with their times. All else is owned by
// the goroutine of Run, which takes what processes say from one channel.
package goodput
