package metrics

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/skerry-ft/skerry/quorum"
)

// lostReasons are the causes of a loss: a closed set, for they are a label. What an operator
// reads of one loss is its event, in the log and on the page.
var lostReasons = []quorum.CauseKind{quorum.CauseStream, quorum.CauseSilent, quorum.CauseLink, quorum.CauseSuperseded}

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
	detects   *prometheus.HistogramVec
	reforms   *prometheus.HistogramVec
	resumes   *prometheus.HistogramVec

	mu    sync.Mutex
	known map[string]bool // jobs that have series
}

// costBuckets go from 2 ms to 39 s: a loss that peers tell of is milliseconds, one that
// waits for a timeout is seconds.
var costBuckets = prometheus.ExponentialBuckets(0.002, 3, 10)

func newJobs(ours promauto.Factory) *jobs {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return ours.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"job"}, labels...))
	}
	seconds := func(name, help string) *prometheus.HistogramVec {
		return ours.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: costBuckets}, []string{"job"})
	}
	return &jobs{
		formed:    counter("quorums_formed_total", "Quorums that were written to the ledger."),
		fallen:    counter("quorums_fallen_total", "Quorums that fell."),
		lost:      counter("lost_total", "Replicas that were lost; those that left, or were evicted, are not.", "reason"),
		settled:   counter("steps_settled_total", "Steps that were cut short and settled here. Replicas count all that they discard.", "outcome"),
		drains:    counter("drains_total", "Replicas that were told to drain."),
		evictions: counter("evictions_total", "Replicas that were evicted."),
		kills:     counter("kills_total", "Replicas that were killed on an operator's word."),
		detects:   seconds("detect_seconds", "From the first sign of a fault to the fall of its quorum."),
		reforms:   seconds("reform_seconds", "From the first sign of a fault to the next quorum that has members of the one before."),
		resumes:   seconds("resume_seconds", "From the first sign of a fault to the first step that was committed after it."),
		known:     make(map[string]bool),
	}
}

// counters are those of jobs, with the values of the labels behind the job's.
func (j *jobs) counters() map[*prometheus.CounterVec][]string {
	reasons := make([]string, len(lostReasons))
	for i, kind := range lostReasons {
		reasons[i] = kind.String()
	}
	return map[*prometheus.CounterVec][]string{
		j.formed: nil, j.fallen: nil, j.drains: nil, j.evictions: nil, j.kills: nil,
		j.lost: reasons, j.settled: {settledCommitted, settledDiscarded},
	}
}

func (j *jobs) histograms() []*prometheus.HistogramVec {
	return []*prometheus.HistogramVec{j.detects, j.reforms, j.resumes}
}

// begin begins a job's series, if it is new.
func (j *jobs) begin(job string) {
	if j.known[job] {
		return
	}
	j.known[job] = true
	for counter, values := range j.counters() {
		if values == nil {
			counter.WithLabelValues(job)
		}
		for _, value := range values {
			counter.WithLabelValues(job, value)
		}
	}
	for _, h := range j.histograms() {
		h.WithLabelValues(job)
	}
}

// Began says that a job begins here; formed says that it has come to a quorum. Until then it has no
// series.
func (m *Metrics) Began(job string, formed bool) {
	m.jobs.mu.Lock()
	defer m.jobs.mu.Unlock()
	if formed {
		m.jobs.begin(job)
	}
}

// Happened counts an event of a job.
func (m *Metrics) Happened(job string, e quorum.Event) {
	j := m.jobs
	j.mu.Lock()
	defer j.mu.Unlock()
	// A name that clients made up costs no series.
	if e.Kind != quorum.EventFormed && !j.known[job] {
		return
	}
	j.begin(job)
	switch e.Kind {
	case quorum.EventLost:
		j.lost.WithLabelValues(job, e.Cause.Kind.String()).Inc()
	case quorum.EventFell:
		j.fallen.WithLabelValues(job).Inc()
	case quorum.EventFormed:
		j.formed.WithLabelValues(job).Inc()
		if c := e.Change; c != nil && repairs(c) {
			j.detects.WithLabelValues(job).Observe(c.Known.Seconds())
			j.reforms.WithLabelValues(job).Observe(c.Reformed.Seconds())
		}
	case quorum.EventResumed:
		if c := e.Change; c != nil && repairs(c) {
			j.resumes.WithLabelValues(job).Observe(c.Resumed.Seconds())
		}
	case quorum.EventSettled:
		j.settled.WithLabelValues(job, settledOutcome(e.Text)).Inc()
	case quorum.EventDraining:
		j.drains.WithLabelValues(job).Inc()
	case quorum.EventEvicted:
		j.evictions.WithLabelValues(job).Inc()
	}
}

// repairs says that a change followed a fault, not the word of one that went, and that members of
// the quorum before are in the new one: a job that ended, and began anew on another day, was not
// broken meanwhile. (Of a larger quorum than the list has names some are taken to be there.)
func repairs(c *quorum.Change) bool {
	return c.Cause.Kind != quorum.CauseUnknown && !c.Cause.Kind.Orderly() && len(c.Gone) < c.Before
}

// Killed counts a replica of a job that was killed.
func (m *Metrics) Killed(job string) {
	m.jobs.mu.Lock()
	defer m.jobs.mu.Unlock()
	m.jobs.begin(job)
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
	for _, h := range j.histograms() {
		h.DeletePartialMatch(of)
	}
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
