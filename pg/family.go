package pg

import (
	"fmt"
	"slices"
	"sync"
)

// family is the subgroups of one group and how they are named. Names start
// anew with every configuration, so that members that survived one and members
// that are new count alike. The zero value is ready; safe for concurrent use.
type family struct {
	mu struct {
		sync.Mutex

		members []*Group
		names   map[string]bool
		count   int            // groups that were named by all ranks together
		local   map[string]int // groups that were named by their members alone, per list of ranks
	}
}

// name takes the name of a new subgroup.
func (f *family) name(o *GroupOptions, ranks []int) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := o.Name
	switch {
	case name != "":
	case o.LocalSync:
		// Not every rank calls, so only what the members have in common counts.
		if f.mu.local == nil {
			f.mu.local = make(map[string]int)
		}
		key := rankKey(ranks)
		name = fmt.Sprintf("%s.%d", key, f.mu.local[key])
		f.mu.local[key]++
	default:
		name = fmt.Sprint(f.mu.count)
		f.mu.count++
	}
	if f.mu.names[name] {
		return "", fmt.Errorf("%w: %q", ErrNameTaken, name)
	}
	if f.mu.names == nil {
		f.mu.names = make(map[string]bool)
	}
	f.mu.names[name] = true
	return name, nil
}

// unname gives a name back, for a subgroup of which no rank has heard: the next one that
// all ranks name together takes it again.
func (f *family) unname(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.names, name)
	if f.mu.count > 0 && name == fmt.Sprint(f.mu.count-1) {
		f.mu.count--
	}
}

func (f *family) adopt(g *Group) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.members = append(f.mu.members, g)
}

// drop forgets g; false if it is none of the family.
func (f *family) drop(g *Group) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.mu.members, g)
	if i < 0 {
		return false
	}
	f.mu.members = slices.Delete(f.mu.members, i, i+1)
	return true
}

// find is the living subgroup of that name.
func (f *family) find(name string) (*Group, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.mu.members, func(g *Group) bool { return g.sub.name == name })
	if i < 0 {
		return nil, false
	}
	return f.mu.members[i], true
}

// end breaks and closes all subgroups and lets naming start anew.
func (f *family) end(cause error) {
	f.mu.Lock()
	members := f.mu.members
	f.mu.members, f.mu.names, f.mu.count, f.mu.local = nil, nil, 0, nil
	f.mu.Unlock()
	for _, g := range members { // all break before the first is waited for
		g.sub.end(cause)
		g.Abort(cause)
	}
	for _, g := range members {
		_ = g.closeOwn() // it is broken; what its sockets say no longer matters
	}
}
