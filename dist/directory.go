package dist

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/skerry-ft/skerry/pg"
)

// Directory finds groups by name: those of one world, or whatever its owner
// makes of it. There is none that all share. The zero value is ready; safe for
// concurrent use.
type Directory struct {
	mu struct {
		sync.Mutex

		groups map[string]*pg.Group
	}
}

// Register makes g known under a name that no other group has; a group has one
// name. Errors: pg.ErrInvalidOp for a nil group or a bad name, pg.ErrNameTaken.
func (d *Directory) Register(name string, g *pg.Group) error {
	if g == nil || name == "" || len(name) > pg.MaxGroupName {
		return fmt.Errorf("%w: register group %.40q, want a group and a name of 1 to %d bytes", pg.ErrInvalidOp, name, pg.MaxGroupName)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, taken := d.mu.groups[name]; taken {
		return fmt.Errorf("%w: %q", pg.ErrNameTaken, name)
	}
	if old, known := d.nameLocked(g); known {
		return fmt.Errorf("%w: register group %q, which is registered as %q", pg.ErrNameTaken, name, old)
	}
	if d.mu.groups == nil {
		d.mu.groups = make(map[string]*pg.Group)
	}
	d.mu.groups[name] = g
	return nil
}

// Unregister forgets g, which goes on to work. pg.ErrUnknownGroup if it was not
// registered.
func (d *Directory) Unregister(g *pg.Group) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	name, ok := d.nameLocked(g)
	if !ok {
		return fmt.Errorf("%w: not registered", pg.ErrUnknownGroup)
	}
	delete(d.mu.groups, name)
	return nil
}

// Find is the group of that name; pg.ErrUnknownGroup if there is none.
func (d *Directory) Find(name string) (*pg.Group, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g, ok := d.mu.groups[name]; ok {
		return g, nil
	}
	return nil, fmt.Errorf("%w: %q", pg.ErrUnknownGroup, name)
}

// NameOf is the name that g was registered under.
func (d *Directory) NameOf(g *pg.Group) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nameLocked(g)
}

// Names lists the registered names in order.
func (d *Directory) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.mu.groups))
}

func (d *Directory) nameLocked(g *pg.Group) (string, bool) {
	for name, other := range d.mu.groups {
		if other == g {
			return name, true
		}
	}
	return "", false
}
