package gate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/skerry-ft/skerry/launch/spare"
)

// Gate is that of one start. Order is called once; all else is safe for concurrent use.
type Gate struct {
	doors   []*door       // by rank
	changed chan struct{} // capacity 1
}

// Listen makes the sockets of so many ranks in a folder. Close must follow.
func Listen(dir string, ranks int) (*Gate, error) {
	g := &Gate{changed: make(chan struct{}, 1)}
	for rank := range ranks {
		// A short name: the kernel takes a path of no more than about a hundred bytes.
		d, err := open(filepath.Join(dir, strconv.Itoa(rank)), g.wake)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("socket of rank %d of a spare, want a folder (TMPDIR) with a short path: %w", rank, err), g.Close())
		}
		g.doors = append(g.doors, d)
	}
	return g, nil
}

// Path is the socket of a rank.
func (g *Gate) Path(rank int) string { return g.doors[rank].path }

// Changed tells that Ready may answer otherwise than before.
func (g *Gate) Changed() <-chan struct{} { return g.changed }

func (g *Gate) wake() {
	select {
	case g.changed <- struct{}{}:
	default: // it is told already
	}
}

// Ready says whether all ranks wait.
func (g *Gate) Ready() bool {
	for _, d := range g.doors {
		if !d.waits() {
			return false
		}
	}
	return true
}

// Order tells all ranks what to do.
func (g *Gate) Order(o spare.Order) error {
	line, err := o.Line()
	if err != nil {
		return err
	}
	for _, d := range g.doors {
		d.order(line)
	}
	return nil
}

// Taken waits until all ranks have taken the place that they were told. Errors: the cause of ctx's
// end, with the rank that has not.
func (g *Gate) Taken(ctx context.Context) error {
	for rank, d := range g.doors {
		select {
		case <-d.taken:
			continue
		default:
		}
		select {
		case <-d.taken:
		case <-ctx.Done():
			return fmt.Errorf("rank %d has not taken its place: %w", rank, context.Cause(ctx))
		}
	}
	return nil
}

// Close ends it, with all connections, and takes the sockets away.
func (g *Gate) Close() (err error) {
	for _, d := range g.doors {
		err = errors.Join(err, d.close())
	}
	return err
}
