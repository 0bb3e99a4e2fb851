package live

import (
	"math"
	"time"

	"github.com/skerry-ft/skerry/lighthouse/api"
)

const (
	// paceEvery is how often viewers are told how long the replicas' steps take. All of 1,000
	// replicas at once are some 60 KB: told at each look they were 500 MB an hour for each viewer.
	paceEvery = 5 * time.Second

	// samePace is the share of a step below which a difference is no news: steps are never equal.
	samePace = 1.0 / 16
)

// steady is now with times that tick as before had them: those of replicas that take about as
// long as they did, and, unless paceDue says that the rest may be told, of all that were there.
// now's maps are changed.
func steady(before, now api.Document, paceDue bool) api.Document {
	for name, job := range now.Jobs {
		was, ok := before.Jobs[name]
		if !ok {
			continue
		}
		for id, r := range job.Replicas {
			if old, ok := was.Replicas[id]; ok {
				keepPace(old, &r, paceDue)
				job.Replicas[id] = r
			}
		}
	}
	return now
}

// keepPace gives now the times of old, unless they are news.
func keepPace(old api.Replica, now *api.Replica, due bool) {
	if now.State != old.State || old.StepMs == 0 || now.StepMs == 0 {
		return // what it does has changed, or whether that is known at all
	}
	same := samePace * (old.StepMs + old.WaitMs)
	if due && (math.Abs(now.StepMs-old.StepMs) > same || math.Abs(now.WaitMs-old.WaitMs) > same) {
		return
	}
	now.StepMs, now.WaitMs = old.StepMs, old.WaitMs
}
