package trace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/pg"
)

// Group is what the dumps of one group and epoch say together.
type Group struct {
	Name       string
	Cluster    string
	QuorumID   int64
	GroupRank  int
	ReplicaIDs []string // by rank

	Dumped   []int          // ranks with a dump, ascending
	Silent   []int          // ranks without
	Last     map[int]uint64 // place of the last collective of each rank with a dump
	Causes   map[int]string // why it broke, as each rank says
	Findings []Finding      // the first that matter come first
}

// FindingKind says what a Finding is about.
type FindingKind string

// The kinds of findings.
const (
	// Missing: some ranks are in a collective that others have not called.
	Missing FindingKind = "missing"
	// Mismatch: ranks called different collectives at one place.
	Mismatch FindingKind = "mismatch"
	// Stuck: all ranks that dumped have called a collective, and some are not
	// done with it.
	Stuck FindingKind = "stuck"
	// Unmatched: sends that nobody has received, or receives that nobody has
	// sent anything for.
	Unmatched FindingKind = "unmatched"
)

// Finding is one thing that is wrong.
type Finding struct {
	Kind  FindingKind
	Place uint64 // of the collective; 0: sends and receives
	What  string // what the ranks that are in it called
	Ranks []int  // whom it is about: the missing, the odd, the stuck
	Text  string // for people, in one line
}

// Analyse sorts dumps into groups and says what is wrong in each.
func Analyse(dumps []Dump) []Group {
	type key struct {
		name, cluster string
		id            int64
		rank          int
	}
	sorted := make(map[key]map[int]*Dump)
	for i := range dumps {
		d := &dumps[i]
		k := key{d.Group, d.Cluster, d.QuorumID, d.GroupRank}
		if sorted[k] == nil {
			sorted[k] = make(map[int]*Dump)
		}
		if old := sorted[k][d.Rank]; old == nil || old.At.Before(d.At) {
			sorted[k][d.Rank] = d
		}
	}
	var groups []Group
	for _, byRank := range sorted {
		groups = append(groups, analyse(byRank))
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.QuorumID, b.QuorumID), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.GroupRank, b.GroupRank), cmp.Compare(a.Cluster, b.Cluster))
	})
	return groups
}

// rankOps are one rank's collectives of the epoch, by place.
type rankOps struct {
	rank     int
	at       map[uint64]*Entry
	first    uint64 // the earliest place that is remembered
	messages []*Entry
}

func analyse(byRank map[int]*Dump) Group {
	any := byRank[slices.Sorted(maps.Keys(byRank))[0]]
	g := Group{
		Name: any.Group, Cluster: any.Cluster, QuorumID: any.QuorumID, GroupRank: any.GroupRank,
		ReplicaIDs: any.ReplicaIDs, Dumped: slices.Sorted(maps.Keys(byRank)),
		Last: make(map[int]uint64), Causes: make(map[int]string),
	}
	g.sameReplicas(byRank)
	var all []rankOps
	for rank := range g.ReplicaIDs {
		d, ok := byRank[rank]
		if !ok {
			g.Silent = append(g.Silent, rank)
			continue
		}
		ops := opsOf(d)
		for place := range ops.at {
			g.Last[rank] = max(g.Last[rank], place)
		}
		if d.Cause != "" {
			g.Causes[rank] = d.Cause
		}
		all = append(all, ops)
	}
	g.collectives(all)
	g.pointToPoint(all)
	return g
}

// sameReplicas says whose dumps name others as the group's replicas, and goes on with
// the longest list: dumps of two groups of one name, or a file that somebody wrote.
func (g *Group) sameReplicas(byRank map[int]*Dump) {
	lists := make(map[string][]int)
	for _, rank := range g.Dumped {
		ids := byRank[rank].ReplicaIDs
		list := fmt.Sprintf("%q", ids)
		lists[list] = append(lists[list], rank)
		if len(ids) > len(g.ReplicaIDs) {
			g.ReplicaIDs = ids
		}
	}
	if len(lists) < 2 {
		return
	}
	most := majority(lists)
	var odd []int
	for list, ranks := range lists {
		if list != most {
			odd = append(odd, ranks...)
		}
	}
	slices.Sort(odd)
	g.add(Mismatch, 0, "", odd, "the dumps of %s name other replicas than those of %s", g.names(odd), g.names(lists[most]))
}

func opsOf(d *Dump) rankOps {
	r := rankOps{rank: d.Rank, at: make(map[uint64]*Entry)}
	for i := range d.Entries {
		e := &d.Entries[i]
		if e.Cluster != d.Cluster || e.QuorumID != d.QuorumID {
			continue
		}
		switch {
		case e.Kind == pg.KindSend.String() || e.Kind == pg.KindRecv.String():
			r.messages = append(r.messages, e)
		case e.Place > 0:
			r.first = cmp.Or(r.first, e.Place)
			r.at[e.Place] = e
		}
	}
	return r
}

// maxFindings bounds what is said of one group: what follows from the first few
// is of no use.
const maxFindings = 16

// collectives compares place by place. What comes after the first place that is
// wrong mostly follows from it, but for ranks that are further behind.
func (g *Group) collectives(all []rankOps) {
	places := make(map[uint64]bool)
	for _, r := range all {
		for place := range r.at {
			places[place] = true
		}
	}
	gone := make(map[int]bool) // ranks that were said to be missing
	for _, place := range slices.Sorted(maps.Keys(places)) {
		if len(g.Findings) >= maxFindings {
			return
		}
		g.collective(place, all, gone)
	}
}

func (g *Group) collective(place uint64, all []rankOps, gone map[int]bool) {
	called := make(map[string][]int)
	var absent, stuck, in []int
	for _, r := range all {
		e := r.at[place]
		switch {
		case e == nil && place < r.first:
			return // forgotten there: nothing can be said
		case e == nil:
			absent = append(absent, r.rank)
		default:
			in = append(in, r.rank)
			called[signature(e)] = append(called[signature(e)], r.rank)
			if e.State != Done {
				stuck = append(stuck, r.rank)
			}
		}
	}
	what := majority(called)
	if len(called) > 1 {
		var parts []string
		var odd []int
		for _, s := range slices.Sorted(maps.Keys(called)) {
			parts = append(parts, fmt.Sprintf("%s called %s", g.names(called[s]), s))
			if s != what {
				odd = append(odd, called[s]...)
			}
		}
		slices.Sort(odd)
		g.add(Mismatch, place, what, odd, "collective %d: %s", place, strings.Join(parts, "; "))
		return
	}
	fresh := slices.DeleteFunc(slices.Clone(absent), func(r int) bool { return gone[r] })
	switch {
	case len(fresh) > 0 && len(stuck) > 0:
		for _, r := range fresh {
			gone[r] = true
		}
		g.add(Missing, place, what, fresh, "collective %d, %s: %s did not call it; %s did",
			place, what, g.names(fresh), g.names(in))
	case len(absent) == 0 && len(stuck) > 0 && len(g.Findings) == 0:
		missing := ""
		if len(g.Silent) > 0 {
			missing = fmt.Sprintf("; nothing is known of %s", g.names(g.Silent))
		}
		g.add(Stuck, place, what, stuck, "collective %d, %s: called by all that dumped, not done on %s%s",
			place, what, g.names(stuck), missing)
	}
}

// signature is what ranks that are in one collective have in common: not the
// shapes of verbs with a slot per rank, nor what only the root has.
func signature(e *Entry) string {
	s := *e
	switch e.Kind {
	case pg.KindAllGather.String(), pg.KindGather.String(), pg.KindScatter.String(), pg.KindAllToAll.String():
		s.Shape, s.Tensors = nil, 0
	}
	return strings.Replace(s.What(), "[]", "", 1)
}

// majority is what most ranks called; of equals, the first.
func majority(called map[string][]int) string {
	best := ""
	for _, s := range slices.Sorted(maps.Keys(called)) {
		if len(called[s]) > len(called[best]) {
			best = s
		}
	}
	return best
}

// pointToPoint counts messages that are not done, by sender, receiver and tag.
func (g *Group) pointToPoint(all []rankOps) {
	for _, r := range all {
		waiting := make(map[string]int)
		for _, e := range r.messages {
			if e.State != Done {
				waiting[e.What()]++
			}
		}
		for _, what := range slices.Sorted(maps.Keys(waiting)) {
			if len(g.Findings) >= maxFindings {
				return
			}
			g.add(Unmatched, 0, what, []int{r.rank}, "%s: %d × %s without an end", g.names([]int{r.rank}), waiting[what], what)
		}
	}
}

func (g *Group) add(kind FindingKind, place uint64, what string, ranks []int, format string, args ...any) {
	g.Findings = append(g.Findings, Finding{
		Kind: kind, Place: place, What: what, Ranks: ranks, Text: fmt.Sprintf(format, args...),
	})
}

// names lists ranks with their replica ids.
func (g *Group) names(ranks []int) string {
	noun := "rank "
	if len(ranks) > 1 {
		noun = "ranks "
	}
	parts := make([]string, len(ranks))
	for i, r := range ranks {
		id := "?"
		if r >= 0 && r < len(g.ReplicaIDs) {
			id = g.ReplicaIDs[r]
		}
		parts[i] = fmt.Sprintf("%d (%s)", r, id)
	}
	return noun + strings.Join(parts, ", ")
}
