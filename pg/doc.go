// Package pg is the API of resizable, fault-tolerant process groups, and the
// driver interface below it.
//
// # Usage
//
// A user holds a [Group], which has one method per verb of torch.distributed
// and is concrete. An implementer provides a [Backend], which has six methods.
// A decorator ([Swallow], [Managed], [Timeout], …) is a Backend around a Backend.
// Because every verb becomes an [Op] (a collective is data) and passes through
// Backend.Submit, a decorator protects every collective, not only all-reduce.
//
//	g := pg.NewGroup(tcp.New(tcp.Options{}))
//	err := g.Configure(ctx, cfg)                 // blocks until all ranks are connected
//	err = g.AllReduce(ctx, tensor.Of(grads), tensor.Sum) // in place
//
// A group of a training job comes from its manager. Where there is none, package
// [github.com/skerry-ft/skerry/dist] meets the other ranks and makes the group of all.
// It also has what is made of this package's verbs: uneven gathers, verbs over several
// tensors of a rank, the monitored barrier, meshes, groups by name, and, in
// [github.com/skerry-ft/skerry/dist/object], collectives of Go values.
//
// # Verbs
//
// All ranks of a group call a collective, in one order. Root, Peer and slots
// are ranks of that group, also in a subgroup; [Group.GroupRank] and
// [Group.GlobalRank] translate. Verbs of several ops (coalesced ones, batches of
// sends and receives) are one op of kind [KindBatch]; verbs into one tensor are
// ops whose slots lie in it. [Group.Compose] runs a verb that is made of others, as
// [Group.NewGroup] and those of package dist are: it waits until it is known
// who takes part, and all the verb's ops run among the same ranks, or it fails with
// [ErrAborted]. What Managed keeps from the caller of one op such a verb returns, for
// its results would be made of memory that no peer wrote.
// Outputs that overlap another tensor of their op are refused.
//
// # Subgroups
//
// [Group.NewGroup] makes a group of some ranks, with a backend and a store
// prefix of its own and its parent's decorators. It ends when its parent is
// configured anew, closed or destroyed, and group names start anew then. A parent
// should be configured through one Group, or have a decorator: who configures
// the bare backend behind its Group ends subgroups only at their next call.
//
// # Life
//
// A group is unconfigured, ready or broken. Configure makes it ready for one
// epoch (cluster, quorum id); it may be called again and again, each time with
// a store prefix that was never used. After the first error of an epoch the
// group is broken: each later call returns [ErrAborted] joined with that first
// cause, until Configure. An error of an old epoch never marks a new one.
//
// # Memory
//
// A [tensor.Tensor] is a view of the caller's memory. It belongs to the backend from
// Submit until the Work is done. No op completes, not even with an error,
// while a goroutine, a peer or a child process can still touch its tensors.
//
// # Order
//
// All ranks submit collectives in one order; the backend numbers them (Seq).
// Point-to-point messages are matched in order per (peer, tag).
//
// # Exactness
//
// A sum is a left fold in rank order in the accumulation type (float32 for
// float16 and bfloat16), rounded once; Avg divides by Op.Divisor before it
// rounds. So the result is the same, bit for bit, on every rank, for every
// transport, chunking and arrival order. NCCL is exempt.
//
// # Layers
//
// What a training process holds is
//
//	Group ─▶ Managed ─▶ (trace.Recorder, observe.Decorator, debug.Check) ─▶ (fault.Injector, Timeout) ─▶ backend
//
// [Managed] maps participants to members and reports errors to its manager,
// which implements [Participation]; ballots pass it as they are. [Swallow] is
// for users without a manager. Backends are known by name through [Register]
// and [Open]; a main registers those it wants.
//
// # Debugging
//
// Package [github.com/skerry-ft/skerry/pg/debug] puts decorators on every group of a
// world that log it and compare what the ranks call, as torch does by
// TORCH_DISTRIBUTED_DEBUG; package [github.com/skerry-ft/skerry/pg/trace] has the flight
// recorder, pg/observe tells an Observer of every op (pg/pgmetrics has one for
// Prometheus), and pg/fault makes ops fail.
//
// # Decorators
//
// Who makes a decorator embeds a [Layer], which passes everything on, and writes Submit:
// it submits the op as it is, as [Timeout] does, or takes a [Relay] for it, as [Swallow]
// does, that completes the caller's Work itself. A decorator that is to go on around
// subgroups is a [Redecorator]; one that queues ops is a [Canceler].
//
// # Cost
//
// Blocking verbs allocate nothing in steady state, over any decorator but
// [Timeout] and debug.Check, and a backend that calls [Work.Release]; async verbs allocate once.
//
// # Concurrency
//
// Group and every Backend of this module are safe for concurrent use; which
// order concurrent collectives take is then the caller's problem. Abort may be
// called from any goroutine at any time.
package pg
