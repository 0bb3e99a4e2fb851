// Package incident follows what the end of a quorum costs one rank: from the fall to the
// first step that counts again. It starts no goroutines, reads no clock and logs nothing.
package incident

import (
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// Incident is the newest one. The zero value is none; its owner guards it.
type Incident struct {
	id        int64 // of the quorum that fell; 0: none is open
	fellAt    time.Time
	discarded int

	lastAt time.Time // when the last quorum fell; zero: none has
	why    string    // in this rank's own words; empty: others told it
}

// Cost is what an incident came to.
type Cost struct {
	QuorumID  int64         // that fell
	Discarded int           // attempts of steps thrown away since: the next ones did them anew
	Took      time.Duration // from the fall to the commit
}

// Fell notes that a quorum fell. One that falls before a step counted again, as when a
// second replica dies, belongs to the incident that is open.
// Why is this rank's own word on it, and empty if others told it here.
func (i *Incident) Fell(now time.Time, quorumID int64, why string) {
	if i.lastAt, i.why = now, why; i.id == 0 {
		i.id, i.fellAt = quorumID, now
	}
}

// Fall is what the lighthouse is told of the last fall; nothing, before the first.
func (i *Incident) Fall(now time.Time) quorum.Fall {
	if i.lastAt.IsZero() {
		return quorum.Fall{}
	}
	return quorum.Fall{Why: i.why, Ago: now.Sub(i.lastAt)}
}

// Ended notes the end of a step's attempt. One that is discarded may end before its quorum
// is known to have fallen. If a committed one ends an incident, over is true.
func (i *Incident) Ended(now time.Time, committed bool) (c Cost, over bool) {
	if !committed {
		i.discarded++
		return Cost{}, false
	}
	if over = i.id != 0; over {
		c = Cost{QuorumID: i.id, Discarded: i.discarded, Took: now.Sub(i.fellAt)}
	}
	i.id, i.discarded = 0, 0
	return c, over
}
