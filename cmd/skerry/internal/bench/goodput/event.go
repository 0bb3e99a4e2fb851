package goodput

import "github.com/skerry-ft/skerry/cmd/skerry/internal/eventline"

// The kinds of event.
const (
	eventReady     = "ready"     // a server listens: Address
	eventCommitted = "committed" // Step, Participants, Hash
	eventDiscarded = "discarded" // an attempt at a step: Step
	eventFailed    = "failed"    // Text
)

// event is one line of JSON that a process writes. Torchft's trainer writes the same.
type event struct {
	Kind         string `json:"event"`
	AtNs         int64  `json:"at_ns"` // by eventline.Now
	Address      string `json:"address,omitempty"`
	Step         int64  `json:"step,omitempty"`
	Participants int    `json:"participants,omitempty"`
	Hash         string `json:"hash,omitempty"`
	Text         string `json:"text,omitempty"`
}

// emitter writes events. Safe for concurrent use.
type emitter struct{ *eventline.Writer }

// emit stamps e and writes it.
func (em emitter) emit(e event) {
	e.AtNs = eventline.Now()
	_ = em.Write(e) // events are of texts and numbers
}
