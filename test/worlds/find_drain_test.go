package worlds

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

// orderDrain tells the lighthouse, as an operator does, that r is to go.
func (w *world) orderDrain(r *replica) {
	w.t.Helper()
	w.book.note(r.name, "is drained by an operator")
	p := r.ranks[0]
	p.mu.Lock()
	p.mu.leaves = true
	p.mu.Unlock()
	w.order(func(ctx context.Context, c skerrypb.LighthouseClient) error {
		_, err := c.Drain(ctx, &skerrypb.DrainRequest{ReplicaId: p.m.ReplicaID(), Reason: "told to"})
		return err
	})
}

// orderUndrain takes that back.
func (w *world) orderUndrain(r *replica) {
	w.t.Helper()
	w.book.note(r.name, "is to stay")
	p := r.ranks[0]
	w.order(func(ctx context.Context, c skerrypb.LighthouseClient) error {
		_, err := c.Undrain(ctx, &skerrypb.UndrainRequest{ReplicaId: p.m.ReplicaID(), Reason: "the wrong one"})
		return err
	})
	p.mu.Lock()
	p.mu.leaves = false
	p.mu.Unlock()
}

// order calls the lighthouse from a host of its own.
func (w *world) order(call func(context.Context, skerrypb.LighthouseClient) error) {
	w.t.Helper()
	operator := w.net.Host("operator")
	defer operator.Kill()
	dial := func(ctx context.Context, addr string) (net.Conn, error) { return operator.Dial(ctx, addr) }
	conn, err := grpc.NewClient("passthrough:///"+houseAddr, grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	if err = call(ctx, skerrypb.NewLighthouseClient(conn)); err != nil {
		w.t.Fatalf("an operator's order: %v", err)
	}
}

// An operator drains some of a job, or all of it: who is drained goes, whether others are
// left to take over or none, and also while the lighthouse is away for a moment behind it.
func TestWorldOperatorDrains(t *testing.T) {
	t.Parallel()
	for all := 1; all <= 3; all++ {
		for drained := 1; drained <= all; drained++ {
			for _, away := range []time.Duration{0, 3 * time.Second} {
				t.Run(fmt.Sprintf("%d of %d, lighthouse away %v", drained, all, away), func(t *testing.T) {
					inWorld(t, usual(), func(w *world) {
						job := w.skewed(make([]time.Duration, all)...)
						w.reach(3, 20*time.Second, job...)
						for _, r := range job[:drained] {
							w.orderDrain(r)
						}
						if away > 0 {
							w.restartHouse(away, false)
						}
						for _, r := range job[:drained] {
							w.within(30*time.Second, r.name+" is drained", r.over)
						}
						if left := job[drained:]; len(left) > 0 {
							w.reach(left[0].ranks[0].m.Step()+5, 20*time.Second, left...)
						}
					})
				})
			}
		}
	}
}
