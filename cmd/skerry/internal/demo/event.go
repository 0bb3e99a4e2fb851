package demo

import (
	"encoding/json"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/eventline"
)

// The kinds of event.
const (
	eventListening   = "listening"    // a lighthouse: Address
	eventLeads       = "leads"        // a lighthouse has become the leader
	eventStarted     = "started"      // a trainer runs: ReplicaID
	eventQuorum      = "quorum"       // QuorumID, Members, Participants
	eventCommitted   = "committed"    // Step, QuorumID, Loss, ChildPID
	eventDiscarded   = "discarded"    // Step that was tried, QuorumID, Text
	eventHealStarted = "heal started" // Step of the state
	eventHealed      = "healed"       // Step of the state, TookMs
	eventDiffered    = "differed"     // the replica's state was not that of the others before Step; Text
	eventLeft        = "left"         // the replica was drained or evicted, and is to stay away: Text
	eventFinal       = "final"        // Step, Hash, Accuracy, Stats
	eventFailed      = "failed"       // Text
)

// event is one line of JSON that a worker writes to its standard output.
type event struct {
	Kind         string          `json:"event"`
	AtNs         int64           `json:"at_ns"` // by eventline.Now
	Address      string          `json:"address,omitempty"`
	ReplicaID    string          `json:"replica_id,omitempty"`
	QuorumID     int64           `json:"quorum_id,omitempty"`
	Members      []string        `json:"members,omitempty"`
	Participants int             `json:"participants,omitempty"`
	Step         int64           `json:"step,omitempty"`
	Loss         float64         `json:"loss,omitempty"`
	TookMs       float64         `json:"took_ms,omitempty"`
	Hash         string          `json:"hash,omitempty"`
	Accuracy     float64         `json:"accuracy,omitempty"`
	Stats        json.RawMessage `json:"stats,omitempty"`
	Text         string          `json:"text,omitempty"`
	ChildPID     int             `json:"child_pid,omitempty"` // of the process that runs the backend, if it is another
}

// emitter writes events. Safe for concurrent use.
type emitter struct{ *eventline.Writer }

// emit stamps e and writes it.
func (em emitter) emit(e event) {
	e.AtNs = eventline.Now()
	if err := em.Write(e); err != nil {
		_ = em.Write(event{Kind: eventFailed, AtNs: e.AtNs, Text: err.Error()}) // a text is JSON
	}
}

// events hands on the events that a worker writes.
func events(each func(event)) *eventline.Lines[event] {
	return &eventline.Lines[event]{Each: func(e event) {
		if e.Kind != "" {
			each(e)
		}
	}}
}
