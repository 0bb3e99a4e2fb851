package metrics

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/skerry-ft/skerry/quorum"
)

// The causes of a loss: a closed set, for they are a label. What an operator reads
// of one loss is its event's text, in the log and on the page.
const (
	lostStreamBroken = "stream_broken" // its connection broke; peers may have accused it, too
	lostBeatsMissed  = "beats_missed"
	lostAccused      = "accused" // by peers alone
	lostSilent       = "silent"  // torchft's: its calls stopped
	lostSuperseded   = "superseded"
	lostOther        = "other"
)

var lostReasons = []string{lostStreamBroken, lostBeatsMissed, lostAccused, lostSilent, lostSuperseded, lostOther}

// lostReason finds the cause in the text of an EventLost.
func lostReason(text string) string {
	for _, known := range []struct{ begins, reason string }{
		{"stream broke", lostStreamBroken},
		{"beats missed", lostBeatsMissed},
		{"accused by", lostAccused},
		{"silent", lostSilent},
		{"superseded by", lostSuperseded},
	} {
		if strings.HasPrefix(text, known.begins) {
			return known.reason
		}
	}
	return lostOther
}

// The outcomes of a contested step.
const (
	settledCommitted = "committed"
	settledDiscarded = "discarded"
)

// settledOutcome finds the outcome in the text of an EventSettled.
func settledOutcome(text string) string {
	if strings.HasSuffix(text, quorum.Forward.String()) {
		return settledCommitted
	}
	return settledDiscarded
}

// jobs counts what happens to jobs. Each series begins at 0 with its job, so that its
// first rise is one.
type jobs struct {
	formed    *prometheus.CounterVec
	fallen    *prometheus.CounterVec
	lost      *prometheus.CounterVec
	settled   *prometheus.CounterVec
	drains    *prometheus.CounterVec
	evictions *prometheus.CounterVec
	kills     *prometheus.CounterVec
	reforms   *prometheus.HistogramVec

	mu    sync.Mutex
	known map[string]*reform // by job
}

// reformBuckets go from 2 ms to 39 s: a loss that peers tell of is milliseconds, one
// that waits for a timeout is seconds.
var reformBuckets = prometheus.ExponentialBuckets(0.002, 3, 10)

func newJobs(ours promauto.Factory) *jobs {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return ours.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"job"}, labels...))
	}
	return &jobs{
		formed:    counter("quorums_formed_total", "Quorums that were written to the ledger."),
		fallen:    counter("quorums_fallen_total", "Quorums that fell."),
		lost:      counter("lost_total", "Replicas that were lost; those that left, or were evicted, are not.", "reason"),
		settled:   counter("steps_settled_total", "Steps that were cut short and settled here. Replicas count all that they discard.", "outcome"),
		drains:    counter("drains_total", "Replicas that were told to drain."),
		evictions: counter("evictions_total", "Replicas that were evicted."),
		kills:     counter("kills_total", "Replicas that were killed on an operator's word."),
		reforms: ours.NewHistogramVec(prometheus.HistogramOpts{
			Name: "reform_seconds", Help: "From the first sign that a quorum is broken to the next one that has members of it.",
			Buckets: reformBuckets,
		}, []string{"job"}),
		known: make(map[string]*reform),
	}
}

// counters are those of jobs, with the values of the labels behind the job's.
func (j *jobs) counters() map[*prometheus.CounterVec][]string {
	return map[*prometheus.CounterVec][]string{
		j.formed: nil, j.fallen: nil, j.drains: nil, j.evictions: nil, j.kills: nil,
		j.lost: lostReasons, j.settled: {settledCommitted, settledDiscarded},
	}
}

// reformOf returns a job's, and begins its series if it is new.
func (j *jobs) reformOf(job string) *reform {
	if r := j.known[job]; r != nil {
		return r
	}
	for counter, values := range j.counters() {
		if values == nil {
			counter.WithLabelValues(job)
		}
		for _, value := range values {
			counter.WithLabelValues(job, value)
		}
	}
	j.reforms.WithLabelValues(job)
	r := &reform{}
	j.known[job] = r
	return r
}

// Began says that a job begins here, whose last quorum was last, if there was one.
func (m *Metrics) Began(job string, last *quorum.Quorum) {
	m.jobs.mu.Lock()
	defer m.jobs.mu.Unlock()
	*m.jobs.reformOf(job) = reform{}
	if last != nil {
		m.jobs.known[job].begin(*last)
	}
}

// Happened counts an event of a job, which the rules told at that time.
func (m *Metrics) Happened(job string, e quorum.Event, at time.Time) {
	j := m.jobs
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reformOf(job).hear(e.Kind, at)
	switch e.Kind {
	case quorum.EventLost:
		j.lost.WithLabelValues(job, lostReason(e.Text)).Inc()
	case quorum.EventFell:
		j.fallen.WithLabelValues(job).Inc()
	case quorum.EventSettled:
		j.settled.WithLabelValues(job, settledOutcome(e.Text)).Inc()
	case quorum.EventDraining:
		j.drains.WithLabelValues(job).Inc()
	case quorum.EventEvicted:
		j.evictions.WithLabelValues(job).Inc()
	}
}

// Formed counts a quorum of a job that is in the ledger since that time.
func (m *Metrics) Formed(job string, q quorum.Quorum, at time.Time) {
	j := m.jobs
	j.mu.Lock()
	defer j.mu.Unlock()
	if took, reformed := j.reformOf(job).form(q, at); reformed {
		j.reforms.WithLabelValues(job).Observe(took.Seconds())
	}
	j.formed.WithLabelValues(job).Inc()
}

// Killed counts a replica of a job that was killed.
func (m *Metrics) Killed(job string) {
	m.jobs.mu.Lock()
	defer m.jobs.mu.Unlock()
	m.jobs.reformOf(job)
	m.jobs.kills.WithLabelValues(job).Inc()
}

// Forget drops what is counted by a job's name.
func (m *Metrics) Forget(job string) {
	m.jobs.mu.Lock()
	defer m.jobs.mu.Unlock()
	m.jobs.forget(job)
}

func (j *jobs) forget(job string) {
	delete(j.known, job)
	of := prometheus.Labels{"job": job}
	for counter := range j.counters() {
		counter.DeletePartialMatch(of)
	}
	j.reforms.DeletePartialMatch(of)
}

// keep forgets the jobs that are not known any more.
func (j *jobs) keep(known func(job string) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for job := range j.known {
		if !known(job) {
			j.forget(job)
		}
	}
}
