package metrics

import (
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Counts are manager.Stats: one converts to the other.
type Counts struct {
	Joins         uint64
	Asks          uint64
	Unanswered    uint64
	Quorums       uint64
	Reconfigures  uint64
	Ballots       uint64
	Commits       uint64
	Discards      uint64
	Settled       uint64
	RolledForward uint64
	Heals         uint64
	HealsServed   uint64
	HealBytes     uint64
	Differed      uint64
	Reconnects    uint64

	LastJoin        time.Duration
	LastReconfigure time.Duration
	LastHeal        time.Duration
}

// Source is the manager that is measured. All functions are safe for concurrent use.
type Source struct {
	Job, Replica string

	Counts           func() Counts
	Step             func() int64
	Participants     func() int
	Participating    func() bool
	Healing          func() bool
	LogLeftOut       func() uint64
	CertificateUntil func() float64 // Unix seconds; 0: none
}

// read is a series that is read when it is scraped.
type read struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(Counts) float64
}

// reads are the series that the manager knows anyway.
func (s *Source) reads(of prometheus.Labels) (all []read) {
	show := func(name, help string, kind prometheus.ValueType, value func(Counts) float64) {
		all = append(all, read{prometheus.NewDesc(prefix+name, help, nil, of), kind, value})
	}
	add := func(name, help string, value func(Counts) uint64) {
		show(name, help, prometheus.CounterValue, func(c Counts) float64 { return float64(value(c)) })
	}
	now := func(name, help string, value func() float64) {
		show(name, help, prometheus.GaugeValue, func(Counts) float64 { return value() })
	}
	add("joins_total", "Joins sent to the lighthouse.", func(c Counts) uint64 { return c.Joins })
	add("asks_unanswered_total", "Asks withdrawn unanswered.", func(c Counts) uint64 { return c.Unanswered })
	add("quorums_total", "Answers taken up.", func(c Counts) uint64 { return c.Quorums })
	add("reconfigures_total", "Groups configured.", func(c Counts) uint64 { return c.Reconfigures })
	add("commits_total", "Steps committed.", func(c Counts) uint64 { return c.Commits })
	add("discards_total", "Attempts of a step discarded.", func(c Counts) uint64 { return c.Discards })
	add("settled_total", "Steps settled by the lighthouse.", func(c Counts) uint64 { return c.Settled })
	add("heals_total", "States taken over.", func(c Counts) uint64 { return c.Heals })
	add("heals_served_total", "Quorums in which others healed from this rank.", func(c Counts) uint64 { return c.HealsServed })
	add("heal_bytes_total", "Bytes of states received.", func(c Counts) uint64 { return c.HealBytes })
	add("state_differed_total", "Steps in which this rank's state was not that of the others.",
		func(c Counts) uint64 { return c.Differed })
	add("reconnects_total", "Sessions with the lighthouse opened after the first.", func(c Counts) uint64 { return c.Reconnects })
	add("log_left_out_total", "Lines about strangers that were not logged, because there were many.",
		func(Counts) uint64 { return s.LogLeftOut() })
	now("step", "Committed updates.", func() float64 { return float64(s.Step()) })
	now("participants", "Participants of the newest quorum.", func() float64 { return float64(s.Participants()) })
	now("participating", "1 if this replica's gradients count in the newest quorum.", func() float64 { return number(s.Participating()) })
	now("healing", "1 while a state is fetched, or waits to be loaded.", func() float64 { return number(s.Healing()) })
	now("certificate_until_seconds", "Unix time at which this process's certificate, or its CA's, ends; 0 without one.", s.CertificateUntil)
	build := prometheus.Labels{"version": version(), "goversion": runtime.Version()}
	for name, value := range of {
		build[name] = value
	}
	return append(all, read{prometheus.NewDesc(prefix+"build_info", "1; its labels say which build this is.", nil, build),
		prometheus.GaugeValue, func(Counts) float64 { return 1 }})
}

// module is this library's path: in a program of another module it is a dependency.
const module = "github.com/skerry-ft/skerry"

// version is this library's, as the toolchain recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "development"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" {
			return m.Version
		}
	}
	return "development"
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
