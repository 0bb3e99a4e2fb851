// Package baddays runs the programs, as processes of their own, on a machine that
// fails them: clocks that jump, certificates that end, disks that become read-only,
// /dev/shm that is gone or full, memory that runs out. Training goes on, or a process
// ends in one clear line; docs/TROUBLESHOOTING.md has the table.
//
// What needs root (mounts, cgroups) is skipped without it, with a reason. No test here
// touches the machine's own clock or mounts: a clock is one process's, by a build of
// the programs in which package time adds what a file holds; mounts are made in
// temporary folders, or in a mount namespace of the process.
package baddays
