package manager

import "github.com/prometheus/client_golang/prometheus"

// metrics shows Stats to prometheus. It computes nothing until it is scraped.
type metrics struct {
	m        *Manager
	registry prometheus.Registerer // nil: none
	shown    []metric
}

type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(Stats) float64
}

// newMetrics registers with m's registry, if there is one. Two managers of one
// process need registries, or a wrapped one, each of its own.
func newMetrics(m *Manager) *metrics {
	c := &metrics{m: m, registry: m.cfg.Registry}
	show := func(name, help string, kind prometheus.ValueType, value func(Stats) float64) {
		c.shown = append(c.shown, metric{prometheus.NewDesc("skerry_manager_"+name, help, nil, nil), kind, value})
	}
	add := func(name, help string, value func(Stats) float64) { show(name, help, prometheus.CounterValue, value) }
	add("joins_total", "Joins sent to the lighthouse.", func(s Stats) float64 { return float64(s.Joins) })
	add("asks_unanswered_total", "Asks withdrawn unanswered.", func(s Stats) float64 { return float64(s.Unanswered) })
	add("quorums_total", "Answers taken up.", func(s Stats) float64 { return float64(s.Quorums) })
	add("reconfigures_total", "Groups configured.", func(s Stats) float64 { return float64(s.Reconfigures) })
	add("commits_total", "Steps committed.", func(s Stats) float64 { return float64(s.Commits) })
	add("discards_total", "Attempts of a step discarded.", func(s Stats) float64 { return float64(s.Discards) })
	add("settled_total", "Steps settled by the lighthouse.", func(s Stats) float64 { return float64(s.Settled) })
	add("heals_total", "States taken over.", func(s Stats) float64 { return float64(s.Heals) })
	add("heals_served_total", "Quorums in which others healed from this rank.", func(s Stats) float64 { return float64(s.HealsServed) })
	add("heal_bytes_total", "Bytes of states received.", func(s Stats) float64 { return float64(s.HealBytes) })
	add("state_differed_total", "Steps in which this rank's state was not that of the others.",
		func(s Stats) float64 { return float64(s.Differed) })
	add("log_left_out_total", "Lines about strangers that were not logged, because there were many.",
		func(Stats) float64 { return float64(m.sampler.LeftOut()) })
	show("step", "Committed updates.", prometheus.GaugeValue, func(Stats) float64 { return float64(m.Step()) })
	show("participants", "Participants of the newest quorum.", prometheus.GaugeValue,
		func(Stats) float64 { return float64(m.NumParticipants()) })
	show("certificate_until_seconds", "Unix time at which this process's certificate, or its CA's, ends; 0 without one.",
		prometheus.GaugeValue, func(Stats) float64 { return m.guard.UntilSeconds() })
	if c.registry != nil {
		if err := c.registry.Register(c); err != nil {
			m.log.Warn().Err(err).Msg("metrics not registered")
			c.registry = nil
		}
	}
	return c
}

func (c *metrics) unregister() {
	if c.registry != nil {
		c.registry.Unregister(c)
	}
}

// Describe implements prometheus.Collector.
func (c *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, x := range c.shown {
		ch <- x.desc
	}
}

// Collect implements prometheus.Collector.
func (c *metrics) Collect(ch chan<- prometheus.Metric) {
	stats := c.m.Stats()
	for _, x := range c.shown {
		ch <- prometheus.MustNewConstMetric(x.desc, x.kind, x.value(stats))
	}
}
