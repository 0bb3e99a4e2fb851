package gpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
)

// reconfigure goes from quorum to quorum; every second one is left by an abort.
func (r *rank) reconfigure(ctx context.Context) error {
	b, err := r.backend()
	if err != nil {
		return err
	}
	g := pg.NewGroup(b)
	for i := range r.times() {
		began := time.Now()
		if err := r.configure(ctx, g); err != nil {
			return fmt.Errorf("quorum %d: %w", r.quorum, err)
		}
		how := map[bool]string{true: "after an abort", false: "after a good end"}[i%2 == 0]
		r.say(record{What: "configure", Value: how, Seconds: time.Since(began).Seconds()})
		if err := r.right(ctx, g); err != nil {
			return fmt.Errorf("quorum %d: %w", r.quorum, err)
		}
		if err := r.meet(ctx, fmt.Sprint(i)); err != nil { // so that no abort hits a slower rank
			return err
		}
		if i%2 == 1 {
			g.Abort(errors.New("on to the next"))
		}
	}
	return r.leave(g)
}

func (r *rank) times() int {
	if r.Full {
		return r.Quorums
	}
	return 10
}

// A group is configured again and again, and right each time.
func TestReconfigure(t *testing.T) {
	const title = "reconfigure again and again, half of them after an abort"
	results.follow(t, title)
	o := start(t, "reconfigure")
	o.succeed(t)
	seconds, of := 0, make(map[string][]float64)
	for _, rec := range o.records {
		if rec.What == "configure" && rec.Rank == 0 {
			seconds++
			of[rec.Value] = append(of[rec.Value], rec.Seconds)
		}
	}
	if want := (&rank{job: job{Full: *real, Quorums: *quorums}}).times(); seconds != want {
		t.Fatalf("%d quorums, want %d", seconds, want)
	}
	text := fmt.Sprintf("%d quorums", seconds)
	for _, how := range slices.Sorted(maps.Keys(of)) {
		all := of[how]
		slices.Sort(all)
		text += fmt.Sprintf("; %s p50 %.0f ms, max %.0f ms", how, 1000*all[len(all)/2], 1000*all[len(all)-1])
	}
	t.Log(text)
	results.passed(title, text)
}
