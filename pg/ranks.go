package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// GroupName is the name of a subgroup, with those of the groups that it is part of:
// "0", "0/stage". It is empty for a group that is none.
func (g *Group) GroupName() string {
	if g.sub == nil {
		return ""
	}
	if above := g.sub.parent.GroupName(); above != "" {
		return above + "/" + g.sub.name
	}
	return g.sub.name
}

// Parent is the group that a subgroup was made of, or nil.
func (g *Group) Parent() *Group {
	if g.sub == nil {
		return nil
	}
	return g.sub.parent
}

// firstRanks are ranks 0 to n-1.
func firstRanks(n int) []int {
	ranks := make([]int, n)
	for r := range ranks {
		ranks[r] = r
	}
	return ranks
}

// Ranks are the ranks of the world, by rank in this group.
func (g *Group) Ranks() []int {
	if g.sub == nil {
		return firstRanks(max(g.Size(), 0))
	}
	ranks := slices.Clone(g.sub.ranks)
	above := g.sub.parent.Ranks()
	for i, r := range ranks {
		if r < len(above) {
			ranks[i] = above[r]
		}
	}
	return ranks
}

// GroupRank is the rank in this group of a rank of the world; ErrNotMember if
// it is not part of it. In a group that is no subgroup it is the identity.
func (g *Group) GroupRank(worldRank int) (int, error) {
	if i := slices.Index(g.Ranks(), worldRank); i >= 0 {
		return i, nil
	}
	return -1, fmt.Errorf("rank %d of the world in group %q of ranks %v: %w",
		worldRank, g.GroupName(), g.Ranks(), ErrNotMember)
}

// GlobalRank is the rank in the world of a rank of this group.
func (g *Group) GlobalRank(rank int) (int, error) {
	ranks := g.Ranks()
	if rank < 0 || rank >= len(ranks) {
		return -1, fmt.Errorf("%w: rank %d of group %q, want 0 to %d", ErrInvalidOp, rank, g.GroupName(), len(ranks)-1)
	}
	return ranks[rank], nil
}

// Subgroup is the living subgroup of that name, as GroupOptions or NewGroup
// named it; ErrUnknownGroup if there is none.
func (g *Group) Subgroup(name string) (*Group, error) {
	if sub, ok := familyOf(g.backend, &g.track).find(name); ok {
		return sub, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknownGroup, name)
}

// Destroy ends the group and takes its subgroups along; a subgroup's name is
// not used again before its parent is configured anew, when naming starts
// again from the beginning. A group that was destroyed is ErrUnknownGroup.
func (g *Group) Destroy() error {
	if g.sub != nil && !g.sub.family.drop(g) {
		return fmt.Errorf("destroy group %q: %w", g.GroupName(), ErrUnknownGroup)
	}
	g.life.Lock()
	again := g.destroyed
	g.destroyed = true
	g.life.Unlock()
	if again {
		return fmt.Errorf("destroy group %q: %w", g.GroupName(), ErrUnknownGroup)
	}
	return g.Close()
}

// Close ends the group and its subgroups and releases what they hold. Safe to
// call twice.
func (g *Group) Close() error {
	if g.sub != nil {
		g.sub.family.drop(g)
		g.sub.end(errors.Join(ErrAborted, ErrClosed))
	}
	return g.closeOwn()
}

// closeOwn is Close for a group that its family has forgotten.
func (g *Group) closeOwn() error {
	familyOf(g.backend, &g.track).end(fmt.Errorf("%w: its parent was closed", ErrAborted))
	return g.backend.Close()
}

// outsider is the backend of a subgroup on a rank that is not part of it.
type outsider struct {
	name  string
	ranks []int
}

func (o *outsider) Name() string { return o.name }

func (o *outsider) Configure(context.Context, Config) error { return o.Err() }

func (o *outsider) Submit(op *Op) *Work { return Finished(op, o.Err()) }

func (o *outsider) Abort(Epoch, error) {}

func (o *outsider) Err() error { return fmt.Errorf("%w: ranks %v", ErrNotMember, o.ranks) }

func (o *outsider) Close() error { return nil }

func (o *outsider) Rank() int { return -1 }

func (o *outsider) Size() int { return -1 }

// subRoster is the Participation of a subgroup: the participants are those
// of its members that take part in the whole group.
type subRoster struct {
	Participation
	members []int // ranks of the whole group below, by rank in the subgroup below

	last atomic.Pointer[attemptRoster]
}

type attemptRoster struct {
	attempt int64
	roster  Roster
}

func newSubRoster(p Participation, members []int) *subRoster {
	return &subRoster{Participation: p, members: members}
}

func (s *subRoster) Roster(attempt int64) (Roster, bool) {
	if last := s.last.Load(); last != nil && last.attempt == attempt {
		return last.roster, true
	}
	r, ok := s.Participation.Roster(attempt)
	if !ok {
		return Roster{}, false
	}
	return s.keep(attempt, r), true
}

func (s *subRoster) WaitRoster(ctx context.Context, attempt int64) (Roster, error) {
	r, err := s.Participation.WaitRoster(ctx, attempt)
	if err != nil {
		return Roster{}, err
	}
	return s.keep(attempt, r), nil
}

// keep maps the whole group's roster and remembers it, so that ops of one
// attempt do not map again.
func (s *subRoster) keep(attempt int64, whole Roster) Roster {
	r := Roster{Rank: slices.Index(s.members, whole.Rank), WorldSize: len(s.members)}
	for i, member := range s.members {
		if slices.Contains(whole.Participants, member) {
			r.Participants = append(r.Participants, i)
		}
	}
	s.last.Store(&attemptRoster{attempt, r})
	return r
}
