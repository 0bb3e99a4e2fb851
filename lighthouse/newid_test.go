package lighthouse_test

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/quorum"
)

// Ids that a screen does not show as they are do not get in, by session or by
// torchft's calls: the client is told which, what is wanted, and harmlessly.
func TestUnreadableReplicasAreRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		ctx, c := torchft(t, l)
		for id, want := range map[quorum.ReplicaID]string{
			"live\u202eevil:1": "U+202E",
			"  :7f0a1d9c":      "visible",
			"\u200b":           "U+200B",
			quorum.ReplicaID(strings.Repeat("x", 1<<15)): "at most 256 bytes, not 32768",
		} {
			r, _ := rawHello(t, l, id)
			down := r.next("refusal", func(*skerrypb.Down) bool { return true })
			hello := wire.RefusalError(down.GetRefused())
			if !hello.Final || !errors.Is(hello, quorum.ErrInvalid) {
				t.Errorf("session of %.20q: %v, want a final quorum.ErrInvalid", id, down)
			}
			_, asked := c.Quorum(ctx, &torchftpb.LighthouseQuorumRequest{Requester: &torchftpb.QuorumMember{ReplicaId: string(id)}})
			_, beat := c.Heartbeat(ctx, &torchftpb.LighthouseHeartbeatRequest{ReplicaId: string(id)})
			if status.Code(asked) != codes.InvalidArgument || status.Code(beat) != codes.InvalidArgument {
				t.Errorf("torchft's %.20q: %v and %v, want InvalidArgument", id, asked, beat)
			}
			for _, err := range []error{hello, asked, beat} {
				hidden := strings.IndexFunc(err.Error(), func(r rune) bool { return !strconv.IsPrint(r) })
				if !strings.Contains(err.Error(), want) || len(err.Error()) > 500 || hidden >= 0 {
					t.Errorf("%.20q is refused with %q, want a short printable text with %q", id, err, want)
				}
			}
		}
		// A huge one is refused by the size of its message, before it is read.
		huge := strings.Repeat("x", 1<<20)
		_, err := c.Heartbeat(ctx, &torchftpb.LighthouseHeartbeatRequest{ReplicaId: huge})
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "of 1048580 bytes, want at most") {
			t.Errorf("1 MiB: %v, want ResourceExhausted with the size and the bound", err)
		}
		if st, err := l.Lighthouse.Status(t.Context()); err != nil || len(st.Jobs) != 0 {
			t.Errorf("they left %d jobs, %v", len(st.Jobs), err)
		}
	})
}

// A ledger that has such an id from an older release loads, and an operator may put
// that replica out: the others go on.
func TestUnreadableIDOfALedgerIsPutOut(t *testing.T) {
	t.Parallel()
	const old = "live\u202eevil:1"
	inBubble(t, func(t *virtual) {
		dir := t.TempDir()
		durable := func(c *lighthouse.Config) { c.DataDir = dir }
		l := start(t, durable)
		testkit.Eventually(t, "it leads", func() bool {
			_, err := skerrypb.NewLighthouseClient(dial(t, l.Addr)).Info(t.Context(), &skerrypb.InfoRequest{})
			return err == nil
		})
		if err := l.Lighthouse.FormNamed("default", old, "x:1"); err != nil {
			t.Fatal(err)
		}
		if err := l.Stop(); err != nil {
			t.Fatal(err)
		}
		l = start(t, durable)
		testkit.Eventually(t, "the job is there again", func() bool { return replicaStatus(t, l, old).ReplicaID == old })
		operator := skerrypb.NewLighthouseClient(dial(t, l.Addr))
		if _, err := operator.Evict(t.Context(), &skerrypb.EvictRequest{ReplicaId: old}); err != nil {
			t.Fatal(err)
		}
		if got := replicaStatus(t, l, old).State; got != "evicted" {
			t.Errorf("%q is %s, want evicted", old, got)
		}
		_, err := operator.Drain(t.Context(), &skerrypb.DrainRequest{ReplicaId: "\u202eunknown"})
		if !errors.Is(wire.FromStatus(err), quorum.ErrUnknown) || strings.Contains(err.Error(), "\u202e") {
			t.Errorf("drain of an unknown id: %v, want quorum.ErrUnknown with the id in quotes", err)
		}
	})
}

// What a URL names is checked as what a call names is.
func TestNamesInURLs(t *testing.T) {
	t.Parallel()
	l := start(t, nil)
	for path, want := range map[string]int{
		"/jobs/default/replicas/" + url.PathEscape(strings.Repeat("x", 1000)) + "/drain": http.StatusBadRequest,
		"/jobs/" + url.PathEscape("\u202e") + "/replicas/a/drain":                        http.StatusBadRequest,
	} {
		resp, err := http.Post("http://"+l.Addr+path, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close() //nolint:errcheck // the status is all that is read
		if resp.StatusCode != want {
			t.Errorf("POST %.60s: %s, want %d", path, resp.Status, want)
		}
	}
}
