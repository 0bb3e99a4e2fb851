package pg

import "context"

// Wait waits for w, the Work of an async verb of this group, as the blocking
// verbs wait: when ctx ends first, the epoch is aborted with its cause (or, if
// the op is still queued for a quorum to come, the op alone ends), and Wait
// returns once nothing touches the op's tensors any more.
func (g *Group) Wait(ctx context.Context, w *Work) error {
	w.help(ctx)
	select {
	case <-w.Done():
		return w.Err()
	case <-ctx.Done():
		return g.cancel(w, context.Cause(ctx))
	}
}
