package lighthouse

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// A replica closes its stream behind its goodbye, so that the stream's context
// has often ended when the goodbye is taken: it counts all the same.
func TestGoodbyeOutlivesItsStream(t *testing.T) {
	t.Parallel()
	const replicas = 100
	srv := &Server{}
	srv.metrics = srv.newMetrics()
	now := time.Now()
	j := &job{
		leadership: &leadership{server: srv}, calls: make(chan call), ended: make(chan struct{}),
		machine:  quorum.New(now, quorum.DefaultConfig(), quorum.NewLedger("c", "j", 1)),
		sessions: make(map[quorum.ReplicaID]*session),
	}
	ran := make(chan struct{})
	go func() { // as run, without deciding
		defer close(ran)
		for c := range j.calls {
			c.f(now)
		}
	}()
	for i := range replicas {
		id := quorum.ReplicaID(fmt.Sprintf("r%d", i))
		if err := j.machine.Open(now, quorum.Hello{ReplicaID: id, Client: quorum.KindSkerry}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		s := &session{id: id, ctx: ctx, cancel: cancel}
		j.sessions[id] = s
		s.end(errLost)
		if err := s.take(j, &skerrypb.Up{Message: &skerrypb.Up_Leaving{Leaving: &skerrypb.Leaving{}}}); err != nil {
			t.Errorf("goodbye of %s: %v", id, err)
		}
		s.close(j, errLost)
	}
	close(j.calls)
	<-ran
	for _, r := range j.machine.Status(now).Replicas {
		if r.State != quorum.StateLeft || r.Why != "left" {
			t.Errorf("%s is %s %q, want left", r.ReplicaID, r.State, r.Why)
		}
	}
}
