// Package capi is what cmd/libskerry exports to C, without C: groups, their operations,
// stores and Managers behind numbers, operations as lists of numbers, settings as JSON. So that it is
// tested where no C compiler is, and so that the exports are one line each.
//
// # Handles
//
// A handle is a number above 0 that is never used again. A call with one that is not, or
// no longer, is an error of CodeInvalid, never a crash.
//
// # Operations
//
// An operation is a list of int64, as [Op.decode] reads it:
//
//	kind, dtype, reduce, divisor, root, peer, tag, timeout in µs, flat,
//	number of inputs, of outputs, of input splits, of output splits,
//	(address, elements) of each input and output, the splits
//
// Kinds, dtypes and reduce operations are numbered here, see codes.go: a version of the
// library may add numbers and never changes one. Addresses are of memory that the caller
// keeps as it is until the operation is done.
//
// # Managers
//
// A Manager's methods that block are calls: Call begins one on a goroutine of its own and
// returns its handle, Wait and Result are those of operations, Text says what it returned, Close
// ends it. What it calls for, it is told instead, so that nothing calls back: TellState says
// what a part of the state is, before each VerbStart; a call's text has what a heal has
// changed of it, until it is told anew; Turn says that a Finish wants a step; Wish what else it
// wants, as a group of the program's own beside its group, or a copy of what is on a device.
//
// # Waiting
//
// Run and Wait block in Go on the caller's thread, until the operation is done or their
// time is over; everything else returns soon.
package capi
