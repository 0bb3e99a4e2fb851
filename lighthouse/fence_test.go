package lighthouse_test

import (
	"testing"

	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/quorum"
)

// Two leaders that both follow one quorum make one next: the ledger refuses the
// second, and its members are told the first. In a build without the fence they
// are told another quorum under the same id.
func TestTwoQuorumsAfterOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, minReplicas(2))
		all, first := form(t, l.Addr, "a", "b")
		behind, err := l.Lighthouse.FormBehind("default")
		if err != nil {
			t.Fatal(err)
		}
		number := uint64(0)
		for _, r := range all {
			number = r.join(quorum.JoinFall, func(j *quorum.Join) {
				j.Fact = quorum.Fact{Kind: quorum.Refused, Step: 1, QuorumID: first.ID}
			})
		}
		var told quorum.Quorum
		if lighthouse.Fenced {
			_ = all[1].end() // TestFencedJobBeginsAnew looks at how
			_, told = form(t, l.Addr, "a", "b")
		} else {
			told = all[1].answer(number)
		}
		// FormBehind's has the first one's token, any other a new one.
		if same := told.ID == behind && told.Token == first.Token; same != lighthouse.Fenced {
			t.Errorf("told quorum %d, the ledger's is %d; they are one: %v, want %v", told.ID, behind, same, lighthouse.Fenced)
		}
	})
}
