package quorum_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/quorum"
)

// listed makes a quorum of n members at one position.
func listed(n int) quorum.Quorum {
	q := quorum.Quorum{Cluster: "x", Job: "default", ID: 1_764_000_000_001, Round: 1}
	for i := range n {
		m := quorum.Member{
			ReplicaID: quorum.ReplicaID(fmt.Sprintf("replica%05d:00000000-0000-4000-8000-%012d", i, i)),
			Address:   fmt.Sprintf("http://10.0.%d.%d:29500", i/256, i%256), StoreAddress: fmt.Sprintf("10.0.%d.%d:29501", i/256, i%256),
			GroupWorldSize: 8, Position: quorum.Position{Cluster: "x", Step: 7, QuorumID: 1_764_000_000_000},
		}
		q.Members, q.Participants = append(q.Members, m), append(q.Participants, m.ReplicaID)
	}
	return q
}

// followed is base a step later, without some members and with others.
func followed(base *quorum.Quorum, gone []int, came ...quorum.ReplicaID) quorum.Formed {
	q := *base
	q.ID, q.Members, q.Participants = base.ID+1, nil, nil
	for rank, m := range base.Members {
		if !slices.Contains(gone, rank) {
			m.Position.Step, m.Position.QuorumID = m.Position.Step+1, base.ID
			q.Members = append(q.Members, m)
		}
	}
	for _, id := range came {
		q.Members = append(q.Members, quorum.Member{ReplicaID: id, Address: "http://10.1.0.1:29500", StoreAddress: "10.1.0.1:29501", GroupWorldSize: 8})
	}
	slices.SortFunc(q.Members, func(a, b quorum.Member) int { return strings.Compare(string(a.ReplicaID), string(b.ReplicaID)) })
	for _, m := range q.Members {
		if !slices.Contains(came, m.ReplicaID) {
			q.Participants = append(q.Participants, m.ReplicaID)
		}
	}
	return quorum.Formed{FollowsID: base.ID, FollowsRound: base.Round, Client: quorum.KindSkerry, Quorum: q}
}

func entryBytes(t *testing.T, f quorum.Formed) []byte {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// An entry is as long as the change, whatever the size of the quorum: 4 KiB for
// each member that came or went.
func TestEntryIsAsLongAsItsChange(t *testing.T) {
	t.Parallel()
	const most = 4 << 10
	for _, n := range []int{1_000, 4_096, 10_000} {
		base := listed(n)
		whole := len(entryBytes(t, followed(&base, nil)))
		for name, c := range map[string]struct {
			f       quorum.Formed
			changed int
		}{
			"all go on":      {followed(&base, nil), 1},
			"one dies":       {followed(&base, []int{n / 2}), 1},
			"one comes":      {followed(&base, nil, "replica00500:new"), 1},
			"one comes back": {followed(&base, []int{500}, "replica00500:new"), 2},
			"ten die":        {followed(&base, []int{0, n / 9, n / 8, n / 7, n / 6, n / 5, n / 4, n / 3, n / 2, n - 1}), 10},
		} {
			got := len(entryBytes(t, c.f.Against(&base)))
			t.Logf("%d members, %s: %d bytes, whole %d", n, name, got, whole)
			if got > c.changed*most {
				t.Errorf("%d members, %s: an entry of %d bytes, want at most %d", n, name, got, c.changed*most)
			}
		}
	}
}

// Whatever changes, a ledger that is told the difference holds the same as one that
// is told all; through JSON, as the log has it.
func TestDeltaSaysTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		whole := quorum.NewLedger("x", "default", 1000)
		short := whole.Clone()
		q := changedQuorum(r, nil)
		deltas := 0
		for range 20 {
			f := quorum.Formed{Client: quorum.KindSkerry, Quorum: q}
			if whole.Last != nil {
				f.FollowsID, f.FollowsRound = whole.Last.ID, whole.Last.Round
			}
			entry := f.Against(short.Last)
			if entry.Delta != nil {
				deltas++
			}
			var read quorum.Formed
			if err := json.Unmarshal(entryBytes(t, entry), &read); err != nil {
				t.Fatal(err)
			}
			mustApply(t, &whole, f)
			mustApply(t, &short, read)
			if diff := cmp.Diff(whole, short); diff != "" {
				t.Fatalf("seed %d: -whole +delta\n%s", seed, diff)
			}
			q = changedQuorum(r, whole.Last)
		}
		if deltas < 10 {
			t.Errorf("seed %d: %d of 20 entries are deltas", seed, deltas)
		}
	}
}

// changedQuorum follows last with members that stay as they are, commit, change,
// come and go.
func changedQuorum(r *rand.Rand, last *quorum.Quorum) quorum.Quorum {
	q := quorum.Quorum{Cluster: "x", Job: "default", ID: 2000, Round: 1}
	ids := make(map[quorum.ReplicaID]quorum.Member)
	if last != nil {
		q.ID = last.ID + 1
		for _, m := range last.Members {
			ids[m.ReplicaID] = m
		}
	}
	for i := range 12 {
		id := quorum.ReplicaID(fmt.Sprintf("r%02d", i))
		m, known := ids[id]
		switch {
		case !known && r.IntN(3) > 0:
			continue
		case known && r.IntN(8) == 0:
			continue
		case !known || r.IntN(8) == 0:
			m = quorum.Member{ReplicaID: id, Address: fmt.Sprint("http://a:", r.IntN(9)), GroupWorldSize: 1, Data: `{"x":"é"}`}
		}
		m.Position = quorum.Position{Cluster: "x", Step: int64(r.IntN(3)), QuorumID: q.ID - 1}
		m.Sync, m.CommitFailures = r.IntN(4) == 0, int64(r.IntN(2))
		q.Members = append(q.Members, m)
		if r.IntN(4) > 0 {
			q.Participants = append(q.Participants, id)
		}
	}
	if len(q.Members) == 0 {
		return changedQuorum(r, last)
	}
	return q
}

// A delta upon another list than the ledger's changes nothing, whichever field of a
// member the other list has otherwise.
func TestDeltaKnowsItsBase(t *testing.T) {
	t.Parallel()
	base := listed(5)
	entry := followed(&base, []int{1}).Against(&base)
	if entry.Delta == nil {
		t.Fatal("no delta")
	}
	refused := func(name string, l quorum.Ledger, entry quorum.Formed) {
		t.Helper()
		before := l.Clone()
		if err := l.ApplyFormed(entry); !errors.Is(err, quorum.ErrFenced) {
			t.Errorf("%s: %v, want ErrFenced", name, err)
		}
		if diff := cmp.Diff(before, l); diff != "" {
			t.Errorf("%s: changed the ledger:\n%s", name, diff)
		}
	}
	for name := range otherMembers(base.Members[3]) {
		other := listed(5)
		other.Members[3] = otherMembers(other.Members[3])[name]
		l := quorum.NewLedger("x", "default", 1000)
		l.Last = &other // as a ledger of another history has it
		refused("another "+name, l, entry)
	}
	entry.FollowsID, entry.FollowsRound = 0, 0
	refused("no quorum", quorum.NewLedger("x", "default", 1000), entry)
}

// A member that changes in any one field changes in the ledger that is told the
// difference.
func TestDeltaSaysEveryField(t *testing.T) {
	t.Parallel()
	for name, m := range otherMembers(listed(5).Members[3]) {
		if name == "ReplicaID" {
			continue // that is another member
		}
		base := listed(5)
		f := followed(&base, nil)
		f.Quorum.Members[3] = m
		l := quorum.NewLedger("x", "default", 1000)
		l.Last = &base
		want := slices.Clone(f.Quorum.Members)
		entry := f.Against(&base)
		if entry.Delta == nil {
			t.Fatalf("%s: no delta", name)
		}
		mustApply(t, &l, entry)
		if diff := cmp.Diff(want, l.Last.Members); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// otherMembers are m with one field changed, by the field's name; but its seat, of
// which the ledger knows nothing.
func otherMembers(m quorum.Member) map[string]quorum.Member {
	all := make(map[string]quorum.Member)
	for _, field := range reflect.VisibleFields(reflect.TypeFor[quorum.Member]()) {
		if field.Name == "Seat" {
			continue
		}
		o := m
		switch v := reflect.ValueOf(&o).Elem().FieldByIndex(field.Index); v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "1")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + 1)
		default:
			o.Position.Step++
		}
		all[field.Name] = o
	}
	return all
}

// What no leader makes is refused, whatever it says.
func TestDeltaIsChecked(t *testing.T) {
	t.Parallel()
	base := listed(5)
	for name, spoil := range map[string]func(*quorum.Formed){
		"both lists and a delta": func(f *quorum.Formed) { f.Quorum.Members = base.Members },
		"a size too small":       func(f *quorum.Formed) { f.Delta.Size-- },
		"no member":              func(f *quorum.Formed) { f.Delta.Size = 0 },
		"a size of 2^60":         func(f *quorum.Formed) { f.Delta.Size = 1 << 60 },
		"a rank beyond the base": func(f *quorum.Formed) { f.Delta.Gone = []quorum.RankRange{{First: 1, Count: 9}} },
		"a negative rank":        func(f *quorum.Formed) { f.Delta.Gone = []quorum.RankRange{{First: -1, Count: 1}} },
		"a count that overflows": func(f *quorum.Formed) { f.Delta.Gone = []quorum.RankRange{{First: 1, Count: 1<<63 - 1}} },
		"a participant beyond":   func(f *quorum.Formed) { f.Delta.Participants = []quorum.RankRange{{First: 4, Count: 1}} },
		"no state":               func(f *quorum.Formed) { f.Delta.States = nil },
		"ranks in the first one": func(f *quorum.Formed) { f.Delta.States[0].Ranks = []quorum.RankRange{{First: 2, Count: 1}} },
		"a member twice":         func(f *quorum.Formed) { f.Delta.Members, f.Delta.Size = base.Members[2:3], 5 },
		"a new one out of order": func(f *quorum.Formed) {
			f.Delta.Members, f.Delta.Size = []quorum.Member{{ReplicaID: "z"}, {ReplicaID: "a"}}, 6
		},
		"gone and in a state": func(f *quorum.Formed) {
			f.Delta.States = append(f.Delta.States, quorum.RanksState{Ranks: f.Delta.Gone})
		},
	} {
		l := quorum.NewLedger("x", "default", 1000)
		mustApply(t, &l, quorum.Formed{Quorum: base})
		entry := followed(&base, []int{1}).Against(&base)
		spoil(&entry)
		if err := l.ApplyFormed(entry); !errors.Is(err, quorum.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
		if l.Last.ID != base.ID {
			t.Errorf("%s: changed the ledger", name)
		}
	}
}

// FuzzDelta applies any delta: a ledger's list stays sorted, none twice, within what
// the base and the entry name, and its participants are members.
func FuzzDelta(f *testing.F) {
	base := listed(5)
	for _, entry := range []quorum.Formed{
		followed(&base, []int{1}).Against(&base), followed(&base, []int{0, 4}, "replica00003x").Against(&base),
	} {
		text, err := json.Marshal(entry.Delta)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var d quorum.Delta
		if json.Unmarshal(text, &d) != nil {
			return
		}
		l := quorum.NewLedger("x", "default", 1000)
		mustApply(t, &l, quorum.Formed{Quorum: base})
		e := followed(&base, nil)
		e.Quorum.Members, e.Quorum.Participants, e.Delta = nil, nil, &d
		err := l.ApplyFormed(e)
		if err != nil {
			if l.Last.ID != base.ID {
				t.Fatalf("refused, and changed the ledger: %v", err)
			}
			return
		}
		members := l.Last.Members
		if len(members) != d.Size || len(members) > len(base.Members)+len(d.Members) {
			t.Fatalf("%d members of %d and %d", len(members), len(base.Members), len(d.Members))
		}
		for i := range members[1:] {
			if members[i].ReplicaID >= members[i+1].ReplicaID {
				t.Fatalf("not sorted at %d: %v", i, members)
			}
		}
		for _, id := range l.Last.Participants {
			if !slices.ContainsFunc(members, func(m quorum.Member) bool { return m.ReplicaID == id }) {
				t.Fatalf("%q participates and is no member", id)
			}
		}
	})
}
