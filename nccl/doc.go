// Package nccl is the process group of NVIDIA GPUs: libnccl.so.2 and
// libcuda.so.1 opened at run time, so that the module builds, tests and runs
// with no CUDA anywhere.
//
// # Usage
//
//	lib, err := nccl.OpenLibrary()         // libnccl.so.2, or ErrUnavailable
//	cuda, err := nccl.OpenCUDA()           // libcuda.so.1, or ErrUnavailable
//	dev, err := nccl.OpenDevice(cuda, 0)   // retains the primary context
//	buf, err := dev.Alloc(4 << 20)         // a tensor.DeviceMemory
//	x, err := tensor.OnDevice(buf, tensor.Float32, 1<<20)
//	b, err := nccl.New(nccl.Options{Library: lib, Device: dev})
//	err = pg.NewGroup(b).AllReduce(ctx, x, tensor.Sum)
//
// [Register] makes "nccl" a name that pg.Open knows. In production run it in a
// child, as "baby:nccl": a library that hangs or crashes in this process cannot
// be taken back.
//
// # The group
//
// Semantics are those of package pg, but for exactness (NCCL adds in an order of
// its own), tags and AnySource (NCCL has none: ErrUnsupported), and ballots,
// which a device backend does not carry (pair it with a CPU one). The unique id
// travels through the prefixed store of pg.Config; a key beside it tells all
// ranks when one of them aborts, because NCCL itself tells nobody.
//
// Communicators are non-blocking: every call returns, and is polled until it is
// done, until its deadline, or until an abort. Every wait is bounded. Abort is
// called from any goroutine, at most once a communicator, and never together
// with destroy; where the library has a revoke, that lets go of what is in flight
// first. What the library does not give back within AbortLimit (a thread inside
// it, the memory of ops) is abandoned, and the error says so ([ErrAbandoned]):
// nothing in this process can end it. An abort outlasts the ops that it ends; the next epoch
// is made meanwhile (docs/adr/0028), and Close waits for both.
//
// A subgroup's communicator is split from the group's, if all ranks of the group
// take part in NewGroup and the library can. [Options].Shrink makes the one of
// the next epoch out of that of a broken one; see docs/NCCL.md for why it is off.
//
// # Order and streams
//
// One goroutine, locked to a thread with the device's context, launches all ops
// of a group in the order of Submit on a stream of its own. Submit records an
// event on the stream that Options.UserStream gives, before it returns, and the
// op waits for it on the device. A Work is done when the device is; WaitStream
// makes a stream wait for it instead of the host, and [Device.Follow] makes one
// wait for a Work of any backend. [Order] does for a Baby what UserStream does
// here.
//
// [Multi] is a group over several devices of a process, with a lane like that for
// each.
//
// # Versions
//
// The library must be 2.14 or later (non-blocking init). What later versions
// added is gated: [Library.Has] tells, and the error names the version needed
// and the one found. CUDA symbols are bound by their versioned names and with
// the primary context, which works with CUDA 11, 12 and 13.
//
// When an op is about to miss its deadline, or the library reports an error, its
// RAS service is asked how the job is: the error carries the answer.
//
// # Drivers
//
// [Driver] is all that the backend must have of CUDA, [SharedEvents] and [Gates]
// are what it can do without. OpenCUDA gives the one that loads libcuda at run
// time; package nccl/gorgonia has one on gorgonia.org/cu.
//
// # Goroutines
//
//	name          owns                    ends when
//	engine.run    the thread, the stream  Close, or the next Configure
//	engine.guard  deadlines, the abort    as above
//	engine.listen the abort key           as above
//	inquire       a question to RAS       the answer, its limit, or as above
package nccl
