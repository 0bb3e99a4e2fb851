package trainers_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/trainers"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Two jobs train at a real lighthouse: steps are committed, members die, and others take their
// places; a lighthouse that is gone is told.
func TestTrainers(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, func(c *lighthouse.Config) { c.Rules.MinReplicas = 2 })
	var conns []*grpc.ClientConn
	for range 2 {
		conn, err := grpc.NewClient("passthrough:///"+l.Addr, append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	all, err := trainers.Open(t.Context(), conns, trainers.Options{Jobs: 2, Each: 6, Step: 20 * time.Millisecond, Between: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	if err := all.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	var seen trainers.Measured
	testkit.EventuallyNil(t, "members die, others come, and steps are committed", func() error {
		m := all.Take()
		seen.Deaths, seen.Joins = append(seen.Deaths, m.Deaths...), append(seen.Joins, m.Joins...)
		seen.Steps, seen.Beats = seen.Steps+m.Steps, seen.Beats+m.Beats
		if err := all.Failed(); err != nil {
			t.Fatal(err)
		}
		if len(seen.Deaths) < 3 || len(seen.Joins) < 3 || seen.Steps < 20 || seen.Beats < 20 {
			return errors.New("too few")
		}
		return nil
	})
	if n := len(all.Names()); n != 2 {
		t.Errorf("%d names, want 2", n)
	}
	l.Stop()
	testkit.Eventually(t, "a session has ended", func() bool { return all.Failed() != nil })
}
