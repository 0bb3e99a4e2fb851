package pg

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skerry-ft/skerry/tensor"
)

// MaxGroupName bounds the name of a subgroup, in bytes.
const MaxGroupName = 128

// GroupOptions say how NewGroup makes a subgroup. The zero value is good.
type GroupOptions struct {
	// Name of the group: 1 to MaxGroupName bytes without a slash, unique among
	// the parent's subgroups of this configuration. Empty means a number, the
	// same on all ranks.
	Name string

	// Backend names the backend, as Open takes it: "tcp", "cpu:tcp,cuda:nccl".
	// Empty means another of the parent's kind.
	Backend string

	// Options are for that backend; ignored if Backend is empty.
	Options Options

	// Timeout bounds an op of the group that has no deadline of its own, and
	// the making of the group. Zero means the parent's.
	Timeout time.Duration

	// LocalSync makes only the members call NewGroup, and wait only for one
	// another. Without it every rank of the parent calls, in one order, and
	// returns when the group is ready everywhere. Ranks that make overlapping
	// groups with it must still keep one order, or they wait for ever for one
	// another (until Timeout).
	LocalSync bool
}

// subgroup is what a Group knows that NewGroup of another has made.
type subgroup struct {
	parent *Group
	family *family // of the parent
	name   string
	ranks  []int // the parent's ranks, by rank here
	epoch  Epoch // of the parent, when this was made

	ended atomic.Pointer[error] // why the group is over for good
}

func (s *subgroup) end(cause error) { s.ended.CompareAndSwap(nil, &cause) }

// over is why nothing can be submitted any more: the group was destroyed, or
// its parent is not configured any more as it was. Nil if it goes on, as a group
// that is no subgroup does.
func (s *subgroup) over() error {
	if s == nil {
		return nil
	}
	if ended := s.ended.Load(); ended != nil {
		return *ended
	}
	if now, _ := s.parent.epochs(); now != s.epoch {
		return fmt.Errorf("%w: its parent moved on to %v", ErrAborted, now)
	}
	return nil
}

// NewGroup makes a group of some ranks of g, in ascending order of ranks, whose
// verbs run beside those of g and of other subgroups. No ranks means all.
//
// Every rank of g must call it, with equal arguments and in the same order as
// other groups and collectives (GroupOptions.LocalSync makes it the members
// alone). It returns when the group is ready on all its members. A rank that
// is not a member gets a group whose Rank and Size are -1 and whose verbs give
// ErrNotMember.
//
// The group has a backend of its own (sockets, threads, communicators), made
// as g's was, with the same decorators, which meets under a prefix of g's
// store prefix. It ends when g is configured anew, closed or destroyed: pending
// ops fail then and later ones give ErrAborted. An error in it breaks only it.
//
// Errors: ErrInvalidOp for bad ranks or options; ErrNameTaken; ErrMismatch if
// ranks called it with different arguments; those of Configure.
func (g *Group) NewGroup(ctx context.Context, ranks []int, o GroupOptions) (child *Group, err error) {
	if err := checkGroupName(o.Name); err != nil {
		return nil, err
	}
	err = g.Compose(ctx, func(c *Composed) error {
		child, err = c.newGroup(ctx, ranks, o)
		return err
	})
	return child, err
}

func (c *Composed) newGroup(ctx context.Context, ranks []int, o GroupOptions) (*Group, error) {
	ranks, err := c.checkRanks(ranks)
	if err != nil {
		return nil, err
	}
	family := familyOf(c.g.backend, &c.g.track)
	name, err := family.name(&o, ranks)
	if err != nil {
		return nil, err
	}
	sub := &subgroup{parent: c.g, family: family, name: name, ranks: ranks, epoch: c.epoch}
	if !o.LocalSync {
		if err := c.agree(ctx, sub, o.Backend); err != nil {
			if errors.Is(err, errMoved) {
				family.unname(name)
			}
			return nil, fmt.Errorf("new group %q: %w", name, err)
		}
	}
	child, err := c.makeSub(ctx, sub, o)
	if !o.LocalSync {
		err = c.allReady(ctx, err)
	} else if err == nil && slices.Contains(ranks, c.rank) {
		err = child.Compose(ctx, func(c *Composed) error { return c.Do(ctx, &Op{Kind: KindBarrier}) })
	}
	if err != nil {
		if child != nil {
			_ = child.Close() // err says more
		}
		return nil, fmt.Errorf("new group %q: %w", name, err)
	}
	family.adopt(child)
	return child, nil
}

// NewSubgroups divides g into groups of n neighbouring ranks each and returns
// this rank's and all of them, in order. N must divide Size. Every rank calls.
func (g *Group) NewSubgroups(ctx context.Context, n int, o GroupOptions) (mine *Group, all []*Group, err error) {
	s, err := g.takeSeat(ctx)
	if err != nil {
		return nil, nil, err
	}
	if n < 1 || s.size%n != 0 {
		return nil, nil, fmt.Errorf("%w: subgroups of %d ranks of a group of %d, want a divisor of it", ErrInvalidOp, n, s.size)
	}
	if o.Name != "" && s.size > n {
		return nil, nil, fmt.Errorf("%w: one name, %q, for %d subgroups", ErrInvalidOp, o.Name, s.size/n)
	}
	for ranks := range slices.Chunk(firstRanks(s.size), n) {
		member := slices.Contains(ranks, s.rank)
		if o.LocalSync && !member {
			continue
		}
		group, err := g.NewGroup(ctx, ranks, o)
		if err != nil {
			for _, made := range all {
				_ = made.Destroy() // err says more
			}
			return nil, nil, err
		}
		all = append(all, group)
		if member {
			mine = group
		}
	}
	return mine, all, nil
}

// checkRanks gives the sorted ranks of a subgroup.
func (c *Composed) checkRanks(ranks []int) ([]int, error) {
	if len(ranks) == 0 {
		return firstRanks(c.size), nil
	}
	ranks = slices.Sorted(slices.Values(ranks))
	for i, r := range ranks {
		if r < 0 || r >= c.size {
			return nil, fmt.Errorf("%w: new group with rank %d, want 0 to %d", ErrInvalidOp, r, c.size-1)
		}
		if i > 0 && ranks[i-1] == r {
			return nil, fmt.Errorf("%w: new group with rank %d twice", ErrInvalidOp, r)
		}
	}
	return ranks, nil
}

func checkGroupName(name string) error {
	if len(name) > MaxGroupName || strings.Contains(name, "/") {
		return fmt.Errorf("%w: group name %.40q, want at most %d bytes without a slash", ErrInvalidOp, name, MaxGroupName)
	}
	return nil
}

// rankKey is a short name for a list of ranks, the same on all of them.
func rankKey(ranks []int) string {
	h := sha256.New()
	for _, r := range ranks {
		fmt.Fprintf(h, "%d,", r)
	}
	return fmt.Sprintf("ranks-%x", h.Sum(nil)[:6])
}

// agree checks that all ranks mean the same group.
func (c *Composed) agree(ctx context.Context, s *subgroup, backend string) error {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %v %q", s.name, s.ranks, canonical(backend))
	mine := h.Sum64()
	all, err := c.exchange(ctx, mine)
	if err != nil {
		return err
	}
	for r, theirs := range all {
		if theirs != mine {
			return fmt.Errorf("%w: rank %d called NewGroup for %q with ranks %v (backend %q), rank %d for another group",
				ErrMismatch, c.rank, s.name, s.ranks, backend, r)
		}
	}
	return nil
}

// allReady tells everybody whether this rank is ready, and returns an error if
// anybody is not.
func (c *Composed) allReady(ctx context.Context, failed error) error {
	var status uint64
	if failed != nil {
		status = 1
	}
	all, err := c.exchange(ctx, status)
	if failed != nil || err != nil {
		return errors.Join(failed, err)
	}
	for r, status := range all {
		if status != 0 {
			return fmt.Errorf("%w: rank %d could not make it", ErrAborted, r)
		}
	}
	return nil
}

// exchange tells all ranks a number and returns theirs. A backend without memory on the
// CPU only waits for them: then the result is empty.
func (c *Composed) exchange(ctx context.Context, mine uint64) ([]uint64, error) {
	all := make([]uint64, c.size)
	err := c.AllGatherIntoTensor(ctx, tensor.Of([]uint64{mine}), tensor.Of(all))
	switch {
	case err == nil:
		return all, nil
	case errors.Is(err, ErrInvalidOp) || errors.Is(err, ErrUnsupported):
		return nil, c.Do(ctx, &Op{Kind: KindBarrier})
	}
	return nil, err
}

// makeSub makes this rank's part of a subgroup, configured.
func (c *Composed) makeSub(ctx context.Context, s *subgroup, o GroupOptions) (*Group, error) {
	g := c.g
	config, ok := g.Config()
	switch {
	case !ok:
		return nil, ErrUnconfigured
	case config.Epoch() != c.epoch:
		return nil, fmt.Errorf("%w: its parent moved on to %v", ErrAborted, config.Epoch())
	}
	members := c.below(s.ranks)
	rank := slices.Index(members, config.Rank)
	if rank < 0 {
		return newSub(&outsider{name: g.backend.Name(), ranks: s.ranks}, s), g.sitOut(ctx, o)
	}
	backend, err := g.subBackend(o, members)
	if err != nil {
		return nil, err
	}
	child := newSub(backend, s)
	ids := make([]string, len(members))
	for i, r := range members {
		ids[i] = config.ReplicaIDs[r]
	}
	config.Rank, config.ReplicaIDs = rank, ids
	config.StoreAddress += groupsPrefix + s.name
	config.Cluster = subCluster(config.Cluster, s.name)
	if o.Timeout > 0 {
		config.Timeout = o.Timeout
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	return child, child.Configure(ctx, config)
}

// GroupPath is the name of the group that c configures, if root is the name of the group
// that it is a subgroup of, at whatever depth, or its own.
func (c Config) GroupPath(root string) string {
	_, below, ok := strings.Cut(c.StoreAddress, groupsPrefix)
	if !ok {
		return root
	}
	return root + "/" + strings.ReplaceAll(below, groupsPrefix, "/")
}

// groupsPrefix is what a subgroup's name follows in its store address.
const groupsPrefix = "/groups/"

func newSub(b Backend, s *subgroup) *Group {
	child := NewGroup(b)
	child.sub = s
	return child
}

// subCluster names the epochs of a subgroup, so that a frame that reaches the
// wrong listener of a process is told apart. It is as short as clusters are.
func subCluster(cluster, name string) string {
	sum := sha256.Sum256([]byte(cluster + "/" + name))
	return fmt.Sprintf("%.16s.%x", cluster, sum[:8])
}

// subBackend makes the backend of a subgroup, with g's decorators.
func (g *Group) subBackend(o GroupOptions, members []int) (Backend, error) {
	b, err := splitOrSibling(innermost(g.backend), o, members)
	if err != nil {
		return nil, err
	}
	for _, l := range slices.Backward(slices.Collect(layers(g.backend))) {
		if d, ok := l.(Redecorator); ok {
			b = d.Redecorate(b, members)
		}
	}
	return b, nil
}

func siblingOf(base Backend, o GroupOptions) (Backend, error) {
	if o.Backend != "" {
		return Open(o.Backend, o.Options)
	}
	if s, ok := base.(Sibling); ok {
		return s.Sibling()
	}
	if Available(base.Name()) {
		return Open(base.Name(), o.Options)
	}
	return nil, fmt.Errorf("%w: backend %q cannot make another; name one in GroupOptions.Backend", ErrUnsupported, base.Name())
}
