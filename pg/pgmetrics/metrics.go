package pgmetrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/observe"
)

// Metrics are the metrics of a process. Safe for concurrent use.
type Metrics struct {
	inFlight *prometheus.GaugeVec
	seconds  *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	errors   *prometheus.CounterVec
}

// New registers the metrics.
func New(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "skerry_pg_ops_in_flight", Help: "Ops submitted and not done.",
		}, []string{"group", "kind"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "skerry_pg_op_seconds", Help: "From submitting an op to its end, by outcome.",
			Buckets: prometheus.ExponentialBuckets(10e-6, 4, 12), // 10 µs to 42 s
		}, []string{"group", "kind", "outcome"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skerry_pg_bytes_total", Help: "Bytes of the tensors of ops that succeeded, by side.",
		}, []string{"group", "kind", "side"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skerry_pg_errors_total", Help: "Ops that failed, by reason.",
		}, []string{"group", "kind", "reason"}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.inFlight, m.seconds, m.bytes, m.errors} {
		errs = append(errs, registry.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register process group metrics: %w", err)
	}
	return m, nil
}

// Observer is for one group, whose name is its label.
func (m *Metrics) Observer(group string) observe.Observer {
	o := &observer{errors: m.errors, group: group}
	for _, kind := range append([]pg.Kind{pg.KindInvalid}, pg.Kinds()...) {
		o.kinds = append(o.kinds, kindMetrics{
			inFlight: m.inFlight.WithLabelValues(group, kind.String()),
			done:     m.seconds.WithLabelValues(group, kind.String(), "done"),
			failed:   m.seconds.WithLabelValues(group, kind.String(), "failed"),
			in:       m.bytes.WithLabelValues(group, kind.String(), "in"),
			out:      m.bytes.WithLabelValues(group, kind.String(), "out"),
		})
	}
	return o
}

type observer struct {
	group  string
	errors *prometheus.CounterVec
	kinds  []kindMetrics // by Kind
}

type kindMetrics struct {
	inFlight     prometheus.Gauge
	done, failed prometheus.Observer
	in, out      prometheus.Counter
}

func (o *observer) of(k pg.Kind) *kindMetrics {
	if int(k) >= len(o.kinds) {
		k = pg.KindInvalid
	}
	return &o.kinds[k]
}

// Begin implements observe.Observer.
func (o *observer) Begin(i observe.Info) { o.of(i.Kind).inFlight.Inc() }

// End implements observe.Observer.
func (o *observer) End(i observe.Info, took time.Duration, err error) {
	k := o.of(i.Kind)
	k.inFlight.Dec()
	if err != nil {
		k.failed.Observe(took.Seconds())
		o.errors.WithLabelValues(o.group, i.Kind.String(), reason(err)).Inc()
		return
	}
	k.done.Observe(took.Seconds())
	k.in.Add(float64(i.InBytes))
	k.out.Add(float64(i.OutBytes))
}

// reason is one of few, so that labels stay bounded.
func reason(err error) string {
	for _, r := range []struct {
		is   error
		name string
	}{
		{pg.ErrMismatch, "mismatch"}, {pg.ErrPeerLost, "peer-lost"}, {pg.ErrClosed, "closed"},
		{pg.ErrAborted, "aborted"}, {pg.ErrInvalidOp, "invalid"}, {pg.ErrUnsupported, "unsupported"},
		{pg.ErrNotParticipating, "not-participating"}, {pg.ErrUnconfigured, "unconfigured"},
	} {
		if errors.Is(err, r.is) {
			return r.name
		}
	}
	return "other"
}
