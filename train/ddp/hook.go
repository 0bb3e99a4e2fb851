package ddp

// Hook reduces buckets in a way of the user's. Reduce is called on the trainer's goroutine
// when a bucket is full, in the order of the buckets, which is the same on all ranks.
// It starts ops through the bucket, waits for none, and returns what is to follow
// them. When the Future is done, Bucket.Tensor holds the result: the average of the
// gradients, or whatever the hook stands for.
//
// All ranks must start the same ops for a bucket, in one order, so that what a hook starts
// follows only from the bucket, its own settings, and the phase of a [Phased] one. Ops of
// several buckets are interleaved in one way on all ranks, whenever they end: the n-th next
// part of a bucket's Future runs before Reduce of the bucket 2n after it; when all
// buckets are under way, what is left runs round after round, a part of each.
//
// A step may be discarded after a hook has seen it, or its results may be what no peer
// has written: what a hook keeps from one step for the next it keeps aside until
// Commit, as a [Phased] one.
// Source: torch.nn.parallel.DistributedDataParallel.register_comm_hook.
type Hook interface {
	Reduce(b *Bucket) Future
}

// HookFunc is a function as a Hook without a state.
type HookFunc func(b *Bucket) Future

// Reduce calls f.
func (f HookFunc) Reduce(b *Bucket) Future { return f(b) }

// Phased is a Hook with a state that tells which ops it starts.
type Phased interface {
	Hook

	// Phase is where the hook stands, 0 or more: mostly how many steps it has had.
	Phase() int64
	// Begin begins a step in which all ranks are at phase, that of the first
	// participant; before the first Reduce of the step.
	Begin(phase int64)
	// Commit is called when the step that began last counts: over a plain group by
	// Reducer.Reduce, under a manager by Reducer.Commit. A step without it was discarded.
	Commit()
}

// Future is the rest of a bucket's reduction. The zero Future is done as soon as
// the ops are that were started for the bucket.
type Future struct {
	then    func() Future
	finally func() error
	err     error
}

// Then is a Future of which f follows once all ops are done that were started for the
// bucket. F runs on the trainer's goroutine, in Ready or Reduce, may start more ops, and
// returns what is to follow those. It does not run in a step that has failed.
func Then(f func() Future) Future { return Future{then: f} }

// Finally is Then for the last part, which starts no op: it runs as soon as it can. An error is as that of
// Failed.
func Finally(f func() error) Future { return Future{finally: f} }

// Failed is a Future that has failed. The group is aborted, since the other ranks may
// wait for what this one did not start, and the step is lost on all.
func Failed(err error) Future { return Future{err: err} }

// AllReduce is the Hook that averages: the default.
type AllReduce struct{}

// Reduce starts one all-reduce of the bucket, in place.
func (AllReduce) Reduce(b *Bucket) Future {
	b.AllReduce(b.Tensor())
	return Future{}
}

// needsPlan tells whether what a hook starts follows from more than the bucket, or from
// what the Reducer cannot know.
func needsPlan(h Hook) bool {
	switch h := h.(type) {
	case AllReduce:
		return false
	case *Compress:
		return needsPlan(h.inner)
	}
	return true
}

// commits lets a hook keep what it has put aside.
func commits(h Hook) {
	if p, ok := h.(Phased); ok {
		p.Commit()
	}
}
