package blame

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/pg"
)

// What a failed Configure says is read wherever in the error it stands, and only
// what it says of itself.
func TestFirst(t *testing.T) {
	t.Parallel()
	op := func(id string, first bool) error {
		return &pg.OpError{PeerID: id, First: first, Err: &pg.OpError{PeerID: "inner", First: true, Err: pg.ErrPeerLost}}
	}
	store := fmt.Errorf("%w: gone", pg.ErrNoStore)
	err := fmt.Errorf("configure: %w", errors.Join(op("a", true), fmt.Errorf("more: %w", op("b", true)), store))
	var got []string
	for _, e := range First(err) {
		got = append(got, e.PeerID)
	}
	if !slices.Equal(got, []string{"a", "b"}) || NoStore(err) != store {
		t.Errorf("%q and %v, want a and b and the store's", got, NoStore(err))
	}
	if NoStore(op("a", true)) != nil || len(First(op("a", false))) > 0 || len(First(errors.New("x"))) > 0 {
		t.Error("an error without a store, or without a cause, has one")
	}
}
