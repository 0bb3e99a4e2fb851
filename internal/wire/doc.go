// Package wire is where bytes from the network become values of the rules,
// and back.
//
// The generated messages are in skerrypb (our protocol: package skerry.v1) and
// torchftpb (torchft's, served unchanged). They go no further than this
// package and the RPC handlers that call it: a handler converts first, and what
// it passes on has been bounded.
//
// # Bounds
//
// Every XFromProto and XFromTorchft checks what a peer sent: each string is
// UTF-8 without control characters and no longer than its constant, each list
// no longer than its constant, each number within its range, each enum a known
// value. What breaks a bound is refused with a [*FieldError] that names the
// field, its value and the bound; it matches quorum.ErrInvalid. A missing
// message is an error too, except where absence has a meaning (a join's last
// answer). Nothing that a peer sends can make this package panic.
//
// XToProto and XToTorchft convert our own values and cannot fail; the texts for
// people (reasons, evidence) are cut to what the other side accepts.
//
// Numbers that rise (steps, quorum ids, rounds) end at [MaxNumber], 2^53: no
// peer can push an id to where the next one overflows, and a browser reads them
// exactly.
//
// # Refusals
//
// [RefusalOf] turns an error of the rules into a code by which the other side's
// [RefusalError] finds the same sentinel again, so that a client may ask
// errors.Is(err, quorum.ErrNameInUse). [StatusError] and [FromStatus] do the
// same for unary calls.
//
// All functions are safe for concurrent use; the results share no memory with
// the messages, except strings, which are immutable.
package wire

//go:generate go run ./gen
