package manager

import (
	"context"
	"errors"

	"github.com/skerry-ft/skerry/pg"
)

// watchLocked follows the group that was just configured, so that a death ends
// the quorum at once, in the middle of the forward pass too, and not only when
// the next operation meets it. A backend that is not pg.Watched has only its
// operations to tell.
func (m *Manager) watchLocked(epoch pg.Epoch) {
	broken := pg.BrokenOf(m.managed, epoch)
	if broken == nil {
		return
	}
	m.tasks.Add(func(ctx context.Context) {
		select {
		case <-broken:
			m.groupBroke(ctx, epoch)
		case <-ctx.Done():
		}
	})
}

// groupBroke takes in that the group of an epoch is broken, or that the epoch
// is over. It accuses at once; but while a request is under way it leaves the
// quorum to it, whose answer, or whose failure to configure, says more: a
// member that has moved on to the next quorum breaks this one for whoever still
// waits for the same answer.
func (m *Manager) groupBroke(ctx context.Context, epoch pg.Epoch) {
	cause := m.managed.Err()
	if cause == nil {
		return // configured anew
	}
	// Also if the quorum has fallen meanwhile, by the word of another member:
	// this rank may be the only one that saw the link break.
	m.accuseFirst(cause, epoch.QuorumID)
	matters := false
	err := m.mu.Await(ctx, 0, func() bool {
		matters = m.watchesLocked(epoch)
		return !matters || m.mu.request == nil
	})
	if err == nil && matters {
		m.fall(epoch.QuorumID, cause)
	}
}

// brokeWith takes in the error of an operation. It ends the quorum if that is what
// broke its group, and accuses the peer whose link broke by itself.
func (m *Manager) brokeWith(id int64, err error) {
	if op, ok := errors.AsType[*pg.OpError](err); ok && op.QuorumID != id {
		return // of an older epoch
	}
	m.mu.Lock()
	ready := m.mu.rank.Ready() && m.mu.rank.In(id)
	m.mu.Unlock()
	if !ready || m.managed.Err() == nil {
		return
	}
	m.accuseFirst(err, id)
	m.fall(id, err)
}

// watchesLocked tells whether a break of an epoch's group still matters.
func (m *Manager) watchesLocked(epoch pg.Epoch) bool {
	return m.mu.rank.Standing() && m.mu.final == nil && m.mu.group == epoch &&
		m.mu.rank.InEpoch(epoch.Cluster, epoch.QuorumID)
}
