// Package dist is what torch.distributed has above a process group, made of the
// verbs of package pg: how the ranks of a job meet and become a [World], the grids
// that a World is laid out in, and verbs that are made of several ops.
//
// # Usage
//
//	err := tcp.Register() // once, in main
//	w, err := dist.Init(ctx, dist.InitConfig{Backend: "tcp", Method: "tcp://10.1.1.20:23456?rank=0&world_size=4"})
//	err = w.AllReduce(ctx, grads, tensor.Avg) // a World is a *pg.Group
//	shards, err := dist.AllGatherUneven(ctx, w.Group, shard)
//	mesh, err := dist.InitMesh(ctx, w.Group, []dist.MeshSize{{Name: "dp", Size: 2}, {Name: "tp", Size: 2}}, pg.GroupOptions{})
//	err = errors.Join(w.Barrier(ctx), w.Destroy())
//
// The example of [github.com/skerry-ft/skerry/pg/tcp.Register] is this as a program
// that runs. A process under a manager has its group from there, needs no Init, and
// calls the verbs with it.
//
// # Arrows
//
// Verbs are functions of a [pg.Group] and know no more of it than any caller:
// [pg.Group.Compose] says who takes part and runs their ops, [pg.Group.Submit] a
// single one. Package pg knows nothing of what is made of it.
//
// # Meeting
//
// [Init] finds the store that all ranks share (env://, tcp://, file://, a scheme of
// [RegisterRendezvous], or a store at hand), agrees there on the life that the store
// is used for, opens the backend and configures it. It blocks until all ranks have come,
// its context ends, or [DefaultInitTimeout] has passed. There is no hidden default group:
// who holds the World has initialized. [World.Destroy] ends it, and the same ranks, or
// others, may meet there again.
//
// # Grids and names
//
// A [Mesh] names dimensions over groups, of which one may be resizable. A
// [Directory] finds groups by name; every World has one.
//
// # Verbs
//
// [AllGatherUneven] gathers tensors whose shapes differ; [AllReduceMulti] and its like
// take several tensors of each rank as if each were a rank's own; [MonitoredBarrier] says
// who is missing. Package [github.com/skerry-ft/skerry/dist/object] moves Go values. All
// ranks of the group call them, in the order of their other collectives. Sizes that peers
// announce are bounded before they are believed ([MaxUnevenBytes]).
//
// Those of several ops wait until it is known who takes part, and all their ops run
// among the same ranks, or the verb fails with [pg.ErrAborted]. What pg.Managed keeps
// from the caller of one op they return, for their results would be made of memory that
// no peer wrote. They allocate. A group that has a backend for a device alone, such as
// NCCL, copies what they send to the device and back, and reports of the monitored barrier
// go through its store; over a child process (baby:nccl) alone they are refused, for this
// process has no memory there.
//
// # Concurrency
//
// Init runs a goroutine that answers the other ranks while rank 0 waits for them, and one
// for the store's server, which World.Close ends; verbs leave none behind. World, Mesh and
// Directory are safe for concurrent use.
package dist
