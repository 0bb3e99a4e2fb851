package lighthouse_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// A handover that does not come about refuses commands for a moment, and the
// leader leads on: so do its jobs.
func TestJobOutlivesAHandoverInVain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c, cables := cabledCluster(t, func(cfg *lighthouse.Config) { cfg.Rules.MinReplicas = 1 })
		l, away := c.Servers[c.Leader()], c.Followers()[0]
		ctx, client := torchft(t, l)
		first := get(t, "a", ask(ctx, client, "a", 0))
		cables[away].set(true) // gossip sees it still, and raft does not reach it
		done := make(chan error, 1)
		go func() {
			_, err := skerrypb.NewClusterClient(dial(t, l.Addr)).TransferLeader(ctx, &skerrypb.TransferLeaderRequest{To: c.Servers[away].Addr})
			done <- err
		}()
		m := &torchftpb.QuorumMember{ReplicaId: "a", Address: "http://a", StoreAddress: "a:1", WorldSize: 1, CommitFailures: 1}
		next := get(t, "a, while a server that is cut off is to lead", askWith(ctx, client, m))
		if err := <-done; err == nil {
			t.Error("a server that is cut off took over")
		}
		if next.GetQuorumId() <= first.GetQuorumId() {
			t.Errorf("quorum %d after %d", next.GetQuorumId(), first.GetQuorumId())
		}
	})
}

// Who handed the leadership over, and why, stands in the events of each job, which the next leader
// goes on with; so does that it came to nothing.
func TestAHandoverIsTold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		c := startCluster(t, 3, lighthousetest.Options{Timing: "slow", Change: func(_ int, cfg *lighthouse.Config) { cfg.Rules.MinReplicas = 1 }})
		settled(t, c, 0, []int{0, 1, 2}, nil)
		old, to := c.Leader(), c.Followers()[0]
		l := c.Servers[old]
		_, client := torchft(t, l)
		get(t, "a", ask(t.Context(), client, "a", 0))
		transfer := func(to string) int {
			t.Helper()
			return call(t, "POST", l.URL("/api/v1/leader/transfer"), `{"to": "`+to+`", "reason": "new kernel"}`).StatusCode
		}
		if got := transfer("nowhere:1"); got != http.StatusNotFound {
			t.Errorf("to a server that is not there: %d", got)
		}
		c.Eventually("the named server may lead", func() error { // its health is known later
			if got := transfer(c.Servers[to].Addr); got != http.StatusNoContent && c.Leader() != to {
				return fmt.Errorf("answer %d", got)
			}
			return nil
		})
		c.Eventually("the named server tells of it", func() error {
			if c.Leader() != to {
				return errors.New("it does not lead yet")
			}
			told := answered[[]api.Event](t, call(t, "GET", c.Servers[to].URL("/api/v1/events?job=default"), ""), http.StatusOK)
			told = slices.DeleteFunc(told, func(e api.Event) bool { return e.Kind != "transfer" && e.Kind != "leader" })
			if len(told) < 4 {
				return fmt.Errorf("told %+v", told)
			}
			ask, stays, led := told[0], told[1], told[len(told)-1]
			if last := told[len(told)-2]; last.Text != "the lead was to go to "+c.Servers[to].Addr+" by 127.0.0.1: new kernel" || last.From != "127.0.0.1" || led.Kind != "leader" {
				t.Errorf("told %+v, and then %+v", last, led)
			}
			if ask.Reason != "new kernel" || !strings.HasPrefix(ask.Text, "the lead was to go to nowhere:1") || !strings.HasPrefix(stays.Text, "the lead stays at "+l.Addr+": ") {
				t.Errorf("of what came to nothing it tells %q, %q", ask.Text, stays.Text)
			}
			return nil
		})
	})
}
