// Package runcmd is the command skerry run: the flags of package launch, those of torchrun that
// mean something, signals, and what is told at the end.
//
// It has one goroutine, which passes signals on while a job runs, and one of package reap
// where it is the first process of a container.
package runcmd
