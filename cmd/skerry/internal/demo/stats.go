package demo

import (
	"github.com/skerry-ft/skerry/manager"
)

// stats is what a manager has counted, as the report's JSON has it.
type stats struct {
	Joins         uint64 `json:"joins"`
	Asks          uint64 `json:"asks"`
	Unanswered    uint64 `json:"unanswered"`
	Quorums       uint64 `json:"quorums"`
	Reconfigures  uint64 `json:"reconfigures"`
	Ballots       uint64 `json:"ballots"`
	Commits       uint64 `json:"commits"`
	Discards      uint64 `json:"discards"`
	Settled       uint64 `json:"settled"`
	RolledForward uint64 `json:"rolled_forward"`
	Heals         uint64 `json:"heals"`
	HealsServed   uint64 `json:"heals_served"`
	HealBytes     uint64 `json:"heal_bytes"`
	Differed      uint64 `json:"differed"`
	Reconnects    uint64 `json:"reconnects"`

	LastJoinMs        float64 `json:"last_join_ms"`
	LastReconfigureMs float64 `json:"last_reconfigure_ms"`
	LastHealMs        float64 `json:"last_heal_ms"`
}

func statsOf(s manager.Stats) stats {
	return stats{
		Joins: s.Joins, Asks: s.Asks, Unanswered: s.Unanswered, Quorums: s.Quorums, Reconfigures: s.Reconfigures,
		Ballots: s.Ballots, Commits: s.Commits, Discards: s.Discards, Settled: s.Settled, RolledForward: s.RolledForward,
		Heals: s.Heals, HealsServed: s.HealsServed, HealBytes: s.HealBytes, Differed: s.Differed, Reconnects: s.Reconnects,
		LastJoinMs: ms(s.LastJoin), LastReconfigureMs: ms(s.LastReconfigure), LastHealMs: ms(s.LastHeal),
	}
}
