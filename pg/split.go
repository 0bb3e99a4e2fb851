package pg

import (
	"context"
	"errors"
)

// Splitter is implemented by backends that can make the connections of a
// subgroup out of their own, instead of meeting anew. NewGroup uses it if all
// ranks of the parent call it. All of them take part, in the order of their other
// ops.
type Splitter interface {
	// Split makes an unconfigured backend for the subgroup of those ranks, of
	// which this one is. ErrUnsupported makes NewGroup use Sibling.
	Split(ranks []int) (Backend, error)
	// SitOut takes part in the Configure of such a backend, for a rank that is not
	// in the subgroup. ErrUnsupported means that there is nothing to do.
	SitOut(ctx context.Context) error
}

// Split makes what its backends can of a subgroup out of their connections, and
// has the others meet anew.
func (d *Devices) Split(ranks []int) (Backend, error) {
	return newDevices(d.list, func(i int) (Backend, error) { return splitOrSibling(d.backends[i], GroupOptions{}, ranks) })
}

// SitOut takes part for those of its backends that split.
func (d *Devices) SitOut(ctx context.Context) error {
	for _, b := range d.backends {
		s, ok := b.(Splitter)
		if !ok {
			continue
		}
		if err := s.SitOut(ctx); err != nil && !errors.Is(err, ErrUnsupported) {
			return err
		}
	}
	return nil
}

// splitOrSibling makes the backend of a subgroup of base.
func splitOrSibling(base Backend, o GroupOptions, members []int) (Backend, error) {
	if s, ok := splitterOf(base, o); ok {
		b, err := s.Split(members)
		if !errors.Is(err, ErrUnsupported) {
			return b, err
		}
	}
	return siblingOf(base, o)
}

// splitterOf tells whether base makes that subgroup by a split.
func splitterOf(base Backend, o GroupOptions) (Splitter, bool) {
	s, ok := base.(Splitter)
	return s, ok && !o.LocalSync && o.Backend == ""
}

// sitOut takes part in the making of a subgroup of others, as long as those may take.
func (g *Group) sitOut(ctx context.Context, o GroupOptions) error {
	s, ok := splitterOf(innermost(g.backend), o)
	if !ok {
		return nil
	}
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	if err := s.SitOut(ctx); !errors.Is(err, ErrUnsupported) {
		return err
	}
	return nil
}
