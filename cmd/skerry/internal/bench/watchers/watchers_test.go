package watchers_test

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/crowd"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/watchers"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// People look at a job of a real lighthouse, in each way; they are told of its events, and come
// again in vain when it is gone.
func TestWatchers(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, nil)
	conn, err := grpc.NewClient("passthrough:///"+l.Addr, append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing uses it any more
	c, err := crowd.Open(t.Context(), []*grpc.ClientConn{conn}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := watchers.MakePast(t.Context(), l.Addr, []string{"bench"}, 3); err != nil {
		t.Fatal(err)
	}
	for _, o := range []watchers.Options{{N: 4}, {N: 4, Slow: 4}, {N: 2, Deaf: true}} {
		o.Addr, o.Job = l.Addr, "bench"
		w, err := watchers.Open(t.Context(), o)
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		if err := watchers.MakePast(t.Context(), l.Addr, []string{"bench"}, 2); err != nil {
			t.Fatal(err)
		}
		var seen watchers.Seen
		testkit.EventuallyNil(t, "each is told what happens", func() error {
			more := w.Take()
			seen.Bytes, seen.Events = seen.Bytes+more.Bytes, seen.Events+more.Events
			if !o.Deaf && (seen.Events < int64(o.N) || seen.Bytes == 0) {
				return errors.New("too little")
			}
			return nil
		})
		w.Close()
		if o.Deaf && seen.Bytes > 0 {
			t.Errorf("those who never read have read %d bytes", seen.Bytes)
		}
	}
	if _, err := watchers.Open(t.Context(), watchers.Options{Addr: l.Addr, N: 2, Job: "none"}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a job that is not there: %v, want a 404", err)
	}
	if err := watchers.MakePast(t.Context(), l.Addr, []string{"none"}, 1); err != nil && !strings.Contains(err.Error(), "/api/v1/jobs/none/rules answers") {
		t.Errorf("a past for a job that is not there: %v", err)
	}
}
