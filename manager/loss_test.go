package manager

import (
	"errors"
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// A member that left in good order is no loss, whatever its own words for that are; of a lighthouse
// that says no kind the words count.
func TestWhoLeftIsNotLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind   quorum.CauseKind
		reason string
		want   error
	}{
		{quorum.CauseLeft, "left: bored", errLeft}, {quorum.CauseLeft, "", errLeft}, {quorum.CauseDrained, "", errLeft},
		{quorum.CauseStream, "left: by its stream", errLost}, {quorum.CauseLink, "was lost: link cut", errLost},
		{quorum.CauseUnknown, "left", errLeft}, {quorum.CauseUnknown, "left: bored", errLeft},
		{quorum.CauseUnknown, "leftover", errLost}, {quorum.CauseUnknown, "was lost: silent", errLost},
	} {
		got := lossOf(quorum.Notice{Kind: quorum.NoticeLost, Cause: c.kind, Reason: c.reason})
		if !errors.Is(got, c.want) {
			t.Errorf("%v, %q: %v, want %v", c.kind, c.reason, got, c.want)
		}
	}
}
