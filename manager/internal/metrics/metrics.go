package metrics

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// prefix begins every name.
const prefix = "skerry_manager_"

// The buckets of durations: a step is a millisecond to many minutes; what puts a group
// together is milliseconds where peers tell of a loss, and seconds where a timeout does.
var (
	stepBuckets   = prometheus.ExponentialBuckets(1e-3, 2, 20)   // to 524 s
	waitBuckets   = prometheus.ExponentialBuckets(1e-4, 3, 14)   // to 160 s
	reformBuckets = prometheus.ExponentialBuckets(1e-3, 2.5, 13) // to 60 s
	healBuckets   = prometheus.ExponentialBuckets(1e-2, 2.5, 13) // to 600 s
)

// Metrics are one manager's. It is a prometheus.Collector of all of them.
type Metrics struct {
	source Source
	clock  clock

	registry *prometheus.Registry // what ServeHTTP shows: these, and the process's
	answer   http.Handler         // of few scrapes at a time: strangers may ask, and training goes first
	theirs   prometheus.Registerer
	reads    []read
	all      []prometheus.Collector

	steps      *prometheus.HistogramVec
	committed  prometheus.Observer
	discarded  prometheus.Observer
	wait       prometheus.Histogram
	quorum     prometheus.Histogram
	configure  prometheus.Histogram
	reform     prometheus.Histogram
	heal       prometheus.Histogram
	brokeOff   prometheus.Counter
	fallen     prometheus.Counter
	lost       prometheus.Counter
	lighthouse prometheus.Gauge
	goodput    [kinds]*prometheus.Desc

	mu struct {
		sync.Mutex

		broken time.Time // when the quorum fell that was not replaced yet; zero: none has
	}
}

// New makes the metrics of a manager that is read by source, and registers them with
// theirs, too, if there is one.
func New(source Source, theirs prometheus.Registerer) (*Metrics, error) {
	of := prometheus.Labels{"job": source.Job, "replica": source.Replica}
	m := &Metrics{source: source, registry: prometheus.NewRegistry(), theirs: theirs}
	m.answer = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	m.reads = m.source.reads(of)
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Name: prefix + name, Help: help, ConstLabels: of}
	}
	count := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
		m.all = append(m.all, c)
		return c
	}
	seconds := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, ConstLabels: of, Buckets: buckets})
		m.all = append(m.all, h)
		return h
	}
	m.steps = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: prefix + "step_seconds", ConstLabels: of, Buckets: stepBuckets,
		Help: "From the end of one attempt at a step to the end of the next, by its outcome.",
	}, []string{"outcome"})
	m.committed, m.discarded = m.steps.WithLabelValues("committed"), m.steps.WithLabelValues("discarded")
	m.wait = seconds("allreduce_wait_seconds", "From issuing the last collective under way to the end of all.", waitBuckets)
	m.quorum = seconds("quorum_seconds", "From the wish for a quorum to the answer.", reformBuckets)
	m.configure = seconds("configure_seconds", "Time in which a process group was configured.", reformBuckets)
	m.reform = seconds("reform_seconds", "From the fall of a quorum, as this rank saw it, to the group of the next.", reformBuckets)
	m.heal = seconds("heal_seconds", "From the beginning of a heal to the state taken over.", healBuckets)
	m.brokeOff = count("heals_broken_off_total", "Heals that broke off.")
	m.fallen = count("quorums_fallen_total", "Standing quorums that fell, as this rank saw it.")
	m.lost = count("peers_lost_total", "Members that the lighthouse or a link found dead.")
	m.lighthouse = prometheus.NewGauge(prometheus.GaugeOpts(opts("lighthouse_connected", "1 while a session with the lighthouse is open.")))
	m.all = append(m.all, m.steps, m.lighthouse)
	for kind := range kinds {
		labels := prometheus.Labels{"kind": kind.String()}
		for name, value := range of {
			labels[name] = value
		}
		m.goodput[kind] = prometheus.NewDesc(prefix+"goodput_seconds_total",
			"The trainer's time by what it was spent on; useful over the sum of all is the goodput.", nil, labels)
	}
	m.registry.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if theirs == nil {
		return m, nil
	}
	if err := theirs.Register(m); err != nil {
		m.theirs = nil
		return m, fmt.Errorf("register metrics of replica %q, of which a registry takes one: %w", source.Replica, err)
	}
	return m, nil
}

// Close takes the metrics out of the caller's registry.
func (m *Metrics) Close() {
	if m.theirs != nil {
		m.theirs.Unregister(m)
	}
}

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.answer.ServeHTTP(w, r)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, x := range m.reads {
		ch <- x.desc
	}
	for _, d := range m.goodput {
		ch <- d
	}
	for _, c := range m.all {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	counts := m.source.Counts()
	for _, x := range m.reads {
		ch <- prometheus.MustNewConstMetric(x.desc, x.kind, x.value(counts))
	}
	for kind, spent := range m.clock.seconds() {
		ch <- prometheus.MustNewConstMetric(m.goodput[kind], prometheus.CounterValue, spent.Seconds())
	}
	for _, c := range m.all {
		c.Collect(ch)
	}
}

// Enter begins a call of the trainer; Leave ends it.
func (m *Metrics) Enter() { m.clock.enter(time.Now()) }

// Leave ends a call of the trainer.
func (m *Metrics) Leave() { m.clock.leave(time.Now()) }

// Issued says that the trainer issues a collective.
func (m *Metrics) Issued() { m.clock.issue(time.Now()) }

// Finished says that a collective has ended.
func (m *Metrics) Finished() {
	if wait, last := m.clock.finish(time.Now()); last {
		m.wait.Observe(wait.Seconds())
	}
}

// Ended says that an attempt has ended: as Useful or Unused if it was committed, else as
// Redone.
func (m *Metrics) Ended(kind Kind) {
	took := m.clock.end(time.Now(), kind).Seconds()
	if kind == Redone {
		m.discarded.Observe(took)
		return
	}
	m.committed.Observe(took)
}

// Pace is how long an attempt of the trainer's takes of late: how long it computes, and how
// long it waits for others beside that.
func (m *Metrics) Pace() (own, waited time.Duration) { return m.clock.pace() }

// QuorumFormed says how long an answer took.
func (m *Metrics) QuorumFormed(took time.Duration) { m.quorum.Observe(took.Seconds()) }

// QuorumFell says that the standing quorum has fallen.
func (m *Metrics) QuorumFell() {
	m.fallen.Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.broken.IsZero() {
		m.mu.broken = time.Now()
	}
}

// Configured says that the group of the next quorum is there, and took so long.
func (m *Metrics) Configured(took time.Duration) {
	m.configure.Observe(took.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mu.broken.IsZero() {
		m.reform.Observe(time.Since(m.mu.broken).Seconds())
		m.mu.broken = time.Time{}
	}
}

// PeerLost says that a member is dead.
func (m *Metrics) PeerLost() { m.lost.Inc() }

// HealStarted says that a state is on its way.
func (m *Metrics) HealStarted() { m.clock.heals(time.Now(), true) }

// Copied says that before the first join what there is of a state was copied.
func (m *Metrics) Copied(took time.Duration) { m.clock.healed(time.Now(), took) }

// HealDone says that a state was taken over; or, err, that it was not.
func (m *Metrics) HealDone(took time.Duration, err error) {
	m.clock.heals(time.Now(), false)
	if err != nil {
		m.brokeOff.Inc()
		return
	}
	m.heal.Observe(took.Seconds())
}

// Connected says whether a session with the lighthouse is open.
func (m *Metrics) Connected(is bool) { m.lighthouse.Set(number(is)) }
