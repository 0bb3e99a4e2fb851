package metrics

import (
	"cmp"
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// prefix begins every name.
const prefix = "skerry_lighthouse_"

// Metrics are one server's, in a registry of their own: nothing is registered
// globally, so several servers live in one process.
type Metrics struct {
	source   Source
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	cut      prometheus.Counter
	messages *prometheus.CounterVec
	joins    *prometheus.CounterVec
	notices  *prometheus.CounterVec
	applies  *prometheus.CounterVec
	decide   prometheus.Histogram
	apply    prometheus.Histogram
	jobs     *jobs
}

// New makes the metrics of a server that is read by source.
func New(source Source) *Metrics {
	registry := prometheus.NewRegistry()
	ours := promauto.With(prometheus.WrapRegistererWithPrefix(prefix, registry))
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return ours.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	seconds := func(name, help string, least float64) prometheus.Histogram {
		return ours.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(least, 4, 10)})
	}
	m := &Metrics{
		source:   source,
		registry: registry,
		calls:    counter("calls_total", "Calls ended, streams included.", "method", "code"),
		cut:      counter("connections_cut_total", "Connections cut for a flood, or for making no call that may be made.").WithLabelValues(),
		messages: counter("messages_total", "Messages of sessions received, beats included.", "kind"),
		joins:    counter("joins_total", "Joins received.", "kind", "result"),
		notices:  counter("notices_total", "Notices pushed to members.", "kind"),
		applies:  counter("raft_applies_total", "Commands written to the ledger.", "result"),
		apply:    seconds("raft_apply_seconds", "Time of one write to the ledger.", 1e-5),
		decide:   seconds("decide_seconds", "Time of one decision.", 1e-6),
		jobs:     newJobs(ours),
	}
	for _, err := range []error{nil, context.Canceled} { // both begin at 0, whatever comes first
		m.applies.WithLabelValues(result(err))
	}
	m.showServer(ours)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&scrape{m: m})
	return m
}

// showServer shows what the server says of itself as a whole.
func (m *Metrics) showServer(ours promauto.Factory) {
	now := func(name, help string, value func() float64) {
		ours.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	ours.NewGaugeVec(prometheus.GaugeOpts{
		Name: "build_info", Help: "1; its labels say which build this is."}, []string{"version", "goversion"}).
		WithLabelValues(cmp.Or(m.source.Version, "development"), runtime.Version()).Set(1)
	ours.NewCounterFunc(prometheus.CounterOpts{
		Name: "log_left_out_total", Help: "Lines about strangers that were not logged, because there were many."},
		func() float64 { return float64(m.source.LogLeftOut()) })
	now("certificate_until_seconds", "Unix time at which this server's certificate, or its CA's, ends; 0 without one.",
		m.source.CertificateUntil)
	now("sessions", "Open sessions.", func() float64 { return float64(m.source.Sessions()) })
}

// Handler answers a scrape.
func (m *Metrics) Handler() http.Handler {
	answer := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !m.source.Leads() { // the leader forgets jobs, and tells nobody but the ledger
			m.jobs.keep(m.source.Known)
		}
		answer.ServeHTTP(w, r)
	})
}

func result(err error) string {
	if err != nil {
		return "refused"
	}
	return "ok"
}

// Received counts one message of a session.
func (m *Metrics) Received(up *skerrypb.Up) {
	kind, message := "unknown", up.ProtoReflect()
	if f := message.WhichOneof(message.Descriptor().Oneofs().Get(0)); f != nil {
		kind = string(f.Name())
	}
	m.messages.WithLabelValues(kind).Inc()
}

// Joined counts a join; err says that it was refused.
func (m *Metrics) Joined(kind quorum.JoinKind, err error) {
	m.joins.WithLabelValues(kind.String(), result(err)).Inc()
}

// Pushed counts a notice to so many members.
func (m *Metrics) Pushed(kind quorum.NoticeKind, to int) {
	m.notices.WithLabelValues(kind.String()).Add(float64(to))
}

// Applied counts a write to the ledger.
func (m *Metrics) Applied(took time.Duration, err error) {
	m.applies.WithLabelValues(result(err)).Inc()
	m.apply.Observe(took.Seconds())
}

// Decided counts a decision.
func (m *Metrics) Decided(took time.Duration) { m.decide.Observe(took.Seconds()) }

// Cut counts a connection that was cut.
func (m *Metrics) Cut() { m.cut.Inc() }

// Denied counts a call of a method that is served and that was refused by its
// headers.
func (m *Metrics) Denied(method string) {
	m.calls.WithLabelValues(method, codes.Unauthenticated.String()).Inc()
}

// CountUnary counts calls by method and code.
func (m *Metrics) CountUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	resp, err := handle(ctx, req)
	m.calls.WithLabelValues(info.FullMethod, status.Code(err).String()).Inc()
	return resp, err
}

// CountStream counts streams when they end.
func (m *Metrics) CountStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	err := handle(srv, stream)
	m.calls.WithLabelValues(info.FullMethod, status.Code(err).String()).Inc()
	return err
}
