// Package demo is `skerry demo`: a lighthouse and replicas, each a process of its own, that train
// on real data while one of them is killed every so many steps.
//
//	demo (run.go) ── starts, kills ──▶ workers (worker.go): trainers, houses (house.go)
//	   ▲                                  │
//	   └──── events (event.go) ◀──────────┘
//	   ├──▶ view (view.go), what a terminal shows
//	   └──▶ ledger and Report (report.go), what is said at the end
//
// One goroutine owns all of it; workers are this binary, re-executed, and end with it.
package demo
