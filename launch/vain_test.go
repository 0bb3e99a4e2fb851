package launch

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/launch/internal/layout"
)

// A launcher without a share waits while the job is there. It ends, and says so, when the job has been idle,
// or the lighthouse out of reach, for as long as it may wait, and no sooner.
func TestWaitsInVain(t *testing.T) {
	t.Parallel()
	away := errors.New("no lighthouse can be reached")
	one := Wanted{Replicas: 1, AtMs: 7}
	idle := Wanted{Replicas: 1, AtMs: 7, Idle: true}
	for name, answers := range map[string]func(elapsed time.Duration) (Wanted, error){
		"idle": func(e time.Duration) (Wanted, error) {
			if e < time.Hour {
				return one, nil
			}
			return idle, nil
		},
		"out of reach": func(e time.Duration) (Wanted, error) {
			if e < time.Hour || e > 61*time.Minute && e < 62*time.Minute { // which begins the wait anew
				return one, nil
			}
			return Wanted{}, away
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var log strings.Builder
			cfg := Config{Job: "vision", Nodes: 2, Node: 1, Log: zerolog.New(&log), Wanted: func(ctx context.Context, q Query) (Wanted, error) {
				w, err := answers(time.Since(began))
				if err == nil && q.SeenMs == w.AtMs {
					select {
					case <-time.After(q.Hold):
					case <-ctx.Done():
					}
				}
				return w, err
			}}.withDefaults()
			r := &run{Launcher: &Launcher{cfg: cfg}, plan: layout.Plan{Nodes: 2, Node: 1}, news: make(chan Wanted)}
			over := make(chan struct{})
			go func() {
				defer close(over)
				r.ask(ctx, nil)
			}()
			want := time.Hour + defaultWaitLimit
			if name != "idle" {
				want += 2 * time.Minute
			}
			for w := range r.news {
				if w.Finished {
					break
				}
			}
			stop()
			<-over
			if took := time.Since(began); took < want || took > want+30*time.Second {
				t.Errorf("%s: it waited %v, want %v", name, took, want)
			}
			for _, says := range []string{
				"this host has no share in the job: it waits", "waits no longer than the limit", "has waited in vain: it ends",
				`"wanted":1,"replicas":2`, "take it back with skerry scale JOB 0",
			} {
				if !strings.Contains(log.String(), says) {
					t.Errorf("%s: the log does not say %q: %s", name, says, log.String())
				}
			}
		})
	}
}
