// Package deathsig has the kernel end a child process with its parent, by the parent death
// signal, whatever that parent dies of.
//
// The signal comes when the thread ends that started the child, so a process that may outlive it
// is started from a goroutine that keeps its thread. Other systems than Linux have no such
// signal: there a child must notice by itself, by a pipe for example.
package deathsig
