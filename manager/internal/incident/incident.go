// Package incident follows what the end of a quorum costs one rank: from the fall to the
// first step that counts again. It starts no goroutines, reads no clock and logs nothing.
package incident

import "time"

// Incident is the newest one. The zero value is none; its owner guards it.
type Incident struct {
	id        int64 // of the quorum that fell; 0: none is open
	fellAt    time.Time
	discarded int
}

// Cost is what an incident came to.
type Cost struct {
	QuorumID  int64         // that fell
	Discarded int           // attempts of steps thrown away since: the next ones did them anew
	Took      time.Duration // from the fall to the commit
}

// Fell notes that a quorum fell. One that falls before a step counted again, as when a
// second replica dies, belongs to the incident that is open.
func (i *Incident) Fell(now time.Time, quorumID int64) {
	if i.id == 0 {
		*i = Incident{id: quorumID, fellAt: now, discarded: i.discarded}
	}
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
	*i = Incident{}
	return c, over
}
