package viewers

import (
	"context"
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/usage"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/watchers"
	"github.com/skerry-ft/skerry/internal/backoff"
)

func (m *measuring) params(viewers int) map[string]any {
	return map[string]any{"n": m.Replicas, "jobs": m.Jobs, "viewers": viewers}
}

// tell hands out what the rounds came to.
func (m *measuring) tell(emit func(Series)) {
	for i, s := range []sampled{m.without, m.with} {
		for _, one := range []Series{
			{Name: "viewers-cpu", Unit: "cores", Samples: s.cores},
			{Name: "viewers-memory", Unit: "MiB", Samples: s.memory},
			{Name: "viewers-beats", Unit: "1/s", Samples: s.beats},
			{Name: "viewers-steps", Unit: "1/s", Samples: s.steps},
			{Name: "viewers-answer", Unit: "ms", Samples: s.answer},
			{Name: "viewers-death", Unit: "ms", Samples: s.death},
			{Name: "viewers-lost", Unit: "count", Samples: s.lost},
			{Name: "viewers-join", Unit: "ms", Samples: s.join},
		} {
			if len(one.Samples) > 0 { // else nothing of the kind happened
				one.Params = m.params(i * m.Viewers)
				emit(one)
			}
		}
	}
	for _, one := range []Series{
		{Name: "viewers-cost", Unit: "cores", Samples: m.added},
		{Name: "viewers-arrival-cpu", Unit: "ms", Samples: m.arrival},
		{Name: "viewers-hourly", Unit: "MB", Samples: m.hourly},
		{Name: "viewers-patches", Unit: "1/s", Samples: m.patches},
		{Name: "viewers-cut", Unit: "count", Samples: m.cut},
	} {
		one.Params = m.params(m.Viewers)
		emit(one)
	}
}

// deaf measures viewers who never read: until all are cut, and what they cost until then.
func (m *measuring) deaf(ctx context.Context, emit func(Series)) error {
	before, err := usage.Resident(m.PID)
	if err != nil {
		return err
	}
	people, err := watchers.Open(ctx, watchers.Options{Addr: m.Addr, N: m.Viewers, Job: m.jobs.Names()[0], Deaf: true})
	if err != nil {
		return err
	}
	defer people.Close()
	var more, cores []float64
	began := time.Now()
	open := m.Viewers
	for open > 0 && time.Since(began) < m.DeafLimit {
		used, err := usage.During(m.PID, func() error { return backoff.Sleep(ctx, time.Second) })
		if err != nil {
			return err
		}
		now, err := usage.Resident(m.PID)
		if err != nil {
			return err
		}
		more, cores = append(more, now-before), append(cores, used.Seconds())
		left, err := usage.Files(m.PID)
		if err != nil {
			return err
		}
		open = max(left-m.files, 0)
	}
	for _, one := range []Series{
		{Name: "viewers-deaf-cut", Unit: "s", Samples: []float64{time.Since(began).Seconds()}},
		{Name: "viewers-deaf-memory", Unit: "MiB", Samples: more},
		{Name: "viewers-deaf-cpu", Unit: "cores", Samples: cores},
	} {
		one.Params = m.params(m.Viewers)
		emit(one)
	}
	if open > 0 {
		return fmt.Errorf("%d of %d viewers who never read are not cut after %v", open, m.Viewers, m.DeafLimit)
	}
	return nil
}
