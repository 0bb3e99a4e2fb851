package lighthouse

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// metrics are the server's own registry: nothing is registered globally, so
// several servers live in one process.
type metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	beats    prometheus.Counter
	cut      prometheus.Counter
	messages *prometheus.CounterVec
	joins    *prometheus.CounterVec
	notices  *prometheus.CounterVec
	quorums  *prometheus.CounterVec
	applies  *prometheus.CounterVec
	decide   prometheus.Histogram
	apply    prometheus.Histogram
	quorumID *prometheus.GaugeVec
	members  *prometheus.GaugeVec
}

func newMetrics(s *Server) *metrics {
	registry := prometheus.NewRegistry()
	ours := promauto.With(prometheus.WrapRegistererWithPrefix("skerry_lighthouse_", registry))
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return ours.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return ours.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	seconds := func(name, help string, least float64) prometheus.Histogram {
		return ours.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(least, 4, 10)})
	}
	now := func(name, help string, value func() float64) {
		ours.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	ours.NewCounterFunc(prometheus.CounterOpts{
		Name: "log_left_out_total", Help: "Lines about strangers that were not logged, because there were many."},
		func() float64 { return float64(s.sampler.LeftOut()) })
	now("certificate_until_seconds", "Unix time at which this server's certificate, or its CA's, ends; 0 without one.", s.guard.UntilSeconds)
	now("sessions", "Open sessions.", func() float64 { return float64(s.sessions.Load()) })
	now("leader", "1 if this server leads.", func() float64 {
		if s.leading() == nil {
			return 0
		}
		return 1
	})
	now("raft_last_index", "Index of the last entry of this server's raft log.", func() float64 {
		if lead := s.leading(); lead != nil {
			return float64(lead.ledger.LastIndex())
		}
		return 0 // the log may not be open yet; the leader's counts
	})
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &metrics{
		registry: registry,
		calls:    counter("calls_total", "Calls ended, streams included.", "method", "code"),
		beats:    counter("beats_total", "Heartbeats received.").WithLabelValues(),
		cut:      counter("connections_cut_total", "Connections cut for a flood, or for making no call that may be made.").WithLabelValues(),
		messages: counter("messages_total", "Messages of sessions received, beats included.", "kind"),
		joins:    counter("joins_total", "Joins received.", "kind", "result"),
		notices:  counter("notices_total", "Notices pushed to members.", "kind"),
		quorums:  counter("quorums_formed_total", "Quorums that were written to the ledger.", "job"),
		applies:  counter("raft_applies_total", "Commands written to the ledger.", "result"),
		apply:    seconds("raft_apply_seconds", "Time of one write to the ledger.", 1e-5),
		decide:   seconds("decide_seconds", "Time of one decision.", 1e-6),
		quorumID: gauge("quorum_id", "Id of the last quorum.", "job"),
		members:  gauge("members", "Members of the last quorum.", "job"),
	}
}

func result(err error) string {
	if err != nil {
		return "refused"
	}
	return "ok"
}

// received counts one message of a session.
func (m *metrics) received(up *skerrypb.Up) {
	kind, message := "unknown", up.ProtoReflect()
	if f := message.WhichOneof(message.Descriptor().Oneofs().Get(0)); f != nil {
		kind = string(f.Name())
	}
	m.messages.WithLabelValues(kind).Inc()
}

func (m *metrics) joined(kind quorum.JoinKind, err error) {
	m.joins.WithLabelValues(kind.String(), result(err)).Inc()
}

func (m *metrics) pushed(kind quorum.NoticeKind, to int) {
	m.notices.WithLabelValues(kind.String()).Add(float64(to))
}

func (m *metrics) applied(took time.Duration, err error) {
	m.applies.WithLabelValues(result(err)).Inc()
	m.apply.Observe(took.Seconds())
}

func (m *metrics) decided(took time.Duration) { m.decide.Observe(took.Seconds()) }
func (m *metrics) formed(job string, q quorum.Quorum) {
	m.quorums.WithLabelValues(job).Inc()
	m.quorumID.WithLabelValues(job).Set(float64(q.ID))
	m.members.WithLabelValues(job).Set(float64(len(q.Members)))
}

// countUnary counts calls by method and code.
func (m *metrics) countUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	resp, err := handle(ctx, req)
	m.calls.WithLabelValues(info.FullMethod, status.Code(err).String()).Inc()
	return resp, err
}

// denied counts a call of a method that is served and that was refused by its
// headers.
func (m *metrics) denied(method string) {
	m.calls.WithLabelValues(method, codes.Unauthenticated.String()).Inc()
}

// countStream counts streams when they end.
func (m *metrics) countStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	err := handle(srv, stream)
	m.calls.WithLabelValues(info.FullMethod, status.Code(err).String()).Inc()
	return err
}
