package lighthousetest

import (
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/lighthouse"
)

// Patient are rules for tests in which no step may be lost: a trainer may have to wait for a
// processor longer than a dead one is waited for.
func Patient(c *lighthouse.Config) {
	c.Rules.HeartbeatTimeout, c.Rules.SuspectAfter = 20*time.Second, 10*time.Second
}

// KeepsNames is Patient for tests in which two replicas have one name: the older one loses it
// when it has been silent for three beats, and these are rare.
func KeepsNames(c *lighthouse.Config) {
	Patient(c)
	c.BeatInterval = time.Second
}

// AtLeast are rules for tests whose replicas are processes: there is no quorum of fewer, however
// late one of them begins. SetAtLeast changes that.
func AtLeast(n int) func(*lighthouse.Config) {
	return func(c *lighthouse.Config) { c.Rules.MinReplicas = n }
}

// SetAtLeast changes how many replicas the job "default" wants in a quorum.
func (s *Server) SetAtLeast(t testing.TB, n int) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.Addr, append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the call has had its answer
	if _, err := skerrypb.NewLighthouseClient(conn).Configure(t.Context(), &skerrypb.ConfigureRequest{MinReplicas: new(uint32(n))}); err != nil {
		t.Fatalf("want %d replicas at least: %v", n, err)
	}
}
