// Package viewers measures what people who look at a lighthouse cost it, and those who train: a
// server with jobs of many replicas, in turn without viewers and with them.
package viewers

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/crowd"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/trainers"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/usage"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/watchers"
	"github.com/skerry-ft/skerry/internal/backoff"
)

// Run is one measurement.
type Run struct {
	Addr  string             // of the server
	PID   int                // its process
	Conns []*grpc.ClientConn // to it, for the sessions

	Replicas, Jobs int
	Events         int // of each job's past
	Viewers, Slow  int // all, and those of them that read slowly
	Rounds         int
	Period         time.Duration // of one sample, without viewers and with
	Between        time.Duration // from one death to the next
	DeafLimit      time.Duration // until all viewers who never read have to be cut; 0: there are none
}

// Series is the samples of one figure.
type Series struct {
	Name, Unit string
	Params     map[string]any
	Samples    []float64
}

// step is that of a job that trains.
const step = 200 * time.Millisecond

// Measure hands out a series for each figure.
func (r Run) Measure(ctx context.Context, emit func(Series)) error {
	jobs, err := trainers.Open(ctx, r.Conns, trainers.Options{Jobs: r.Jobs, Each: r.Replicas / r.Jobs, Step: step, Between: r.Between})
	if err != nil {
		return err
	}
	defer jobs.Close()
	if err := jobs.Ready(ctx); err != nil {
		return err
	}
	// A small job that asks all the time has many answers to measure.
	pair, err := crowd.Open(ctx, r.Conns[:min(2, len(r.Conns))], 2)
	if err != nil {
		return err
	}
	defer pair.Close()
	if _, err := pair.JoinAll(ctx); err != nil {
		return err
	}
	files, err := usage.Files(r.PID)
	if err != nil {
		return err
	}
	if err := watchers.MakePast(ctx, r.Addr, jobs.Names(), r.Events); err != nil {
		return err
	}
	m := measuring{Run: r, jobs: jobs, pair: pair, files: files}
	for range r.Rounds {
		if err := m.round(ctx); err != nil {
			return errors.Join(err, jobs.Failed())
		}
	}
	m.tell(emit)
	if r.DeafLimit > 0 {
		err = m.deaf(ctx, emit)
	}
	return errors.Join(err, jobs.Failed())
}

// measuring is a Run under way.
type measuring struct {
	Run

	jobs           *trainers.Trainers
	pair           *crowd.Crowd
	files          int // that the server had open before there were viewers
	without, with  sampled
	added, arrival []float64 // cores that the viewers cost, of each round; ms of CPU to let all in
	hourly         []float64 // MB for each viewer
	patches, cut   []float64 // a second for each viewer, of those that do not read slowly too; of all in a period
}

// sampled is what is measured in both kinds of periods.
type sampled struct {
	cores, memory, beats, steps []float64
	answer, death, join         []float64 // ms
	lost                        []float64 // members, in each period
}

// round is one period without viewers, and one with.
func (m *measuring) round(ctx context.Context) error {
	if err := m.period(ctx, &m.without); err != nil {
		return err
	}
	var people *watchers.Watchers
	arrival, err := usage.During(m.PID, func() (err error) {
		people, err = watchers.Open(ctx, watchers.Options{Addr: m.Addr, N: m.Viewers, Slow: m.Slow, Job: m.jobs.Names()[0]})
		return err
	})
	if err != nil {
		return err
	}
	defer people.Close()
	// What they fetched when they came is behind them.
	if err := backoff.Sleep(ctx, m.Period/10); err != nil {
		return err
	}
	people.Take()
	if err := m.period(ctx, &m.with); err != nil {
		return err
	}
	seen, n := people.Take(), float64(m.Viewers)
	m.arrival = append(m.arrival, arrival.Seconds()*1e3)
	m.added = append(m.added, last(m.with.cores)-last(m.without.cores))
	m.hourly = append(m.hourly, float64(seen.Bytes)/n/m.Period.Hours()/1e6)
	m.patches = append(m.patches, float64(seen.Patches)/n/m.Period.Seconds())
	m.cut = append(m.cut, float64(seen.Cut))
	return nil
}

func last(samples []float64) float64 { return samples[len(samples)-1] }

// period measures for a Period, in which the pair asks for its quorum five times a second.
func (m *measuring) period(ctx context.Context, s *sampled) error {
	m.jobs.Take()
	began := time.Now()
	used, err := usage.During(m.PID, func() error {
		for end := began.Add(m.Period); time.Now().Before(end); {
			took, err := m.pair.AskAll(ctx)
			if err != nil {
				return err
			}
			s.answer = append(s.answer, ms(took))
			if err := backoff.Sleep(ctx, min(step, max(time.Until(end), 0))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	wall, seen := time.Since(began).Seconds(), m.jobs.Take()
	memory, err := usage.Resident(m.PID)
	s.cores, s.memory = append(s.cores, used.Seconds()/wall), append(s.memory, memory)
	s.beats, s.steps = append(s.beats, float64(seen.Beats)/wall), append(s.steps, float64(seen.Steps)/wall)
	s.lost = append(s.lost, float64(seen.Lost))
	for _, took := range seen.Deaths {
		s.death = append(s.death, ms(took))
	}
	for _, took := range seen.Joins {
		s.join = append(s.join, ms(took))
	}
	return errors.Join(err, m.jobs.Failed())
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }
