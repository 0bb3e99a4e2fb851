package progress

import "testing"

// Replicas are found by what their names end with.
func TestIndex(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int{
		"0:uuid": 0, "replica-7:8a9b": 7, "train_ddp_12": 12, "7a:1": -1, "": -1, "x:3": -1, "99999999999999999999:u": -1,
	} {
		index, ok := Index(id)
		if !ok {
			index = -1
		}
		if index != want {
			t.Errorf("%q: %d, want %d", id, index, want)
		}
	}
}

// Steps count that were committed between two looks at the same incarnation, which trained
// at both; what a heal brought does not.
func TestCounter(t *testing.T) {
	t.Parallel()
	var c Counter
	for i, look := range []struct {
		Seen
		want int64
	}{
		{Seen{"a", 0, false}, 0},
		{Seen{"a", 500, true}, 0}, // healed
		{Seen{"a", 510, true}, 10},
		{Seen{"a", 510, true}, 0},
		{Seen{"a", 505, true}, 0}, // it never goes back: an odd server
		{Seen{"a", 520, false}, 0},
		{Seen{"a", 600, true}, 0}, // healed again
		{Seen{"b", 700, true}, 0}, // another incarnation
		{Seen{"b", 703, true}, 3},
		{Seen{}, 0},
		{Seen{"b", 900, true}, 0}, // gone in between
	} {
		if got := c.See(look.Seen); got != look.want {
			t.Errorf("look %d, %+v: %d steps, want %d", i, look.Seen, got, look.want)
		}
	}
}
