package demo

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
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
	AtNs         int64           `json:"at_ns"` // by monotonicNow
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

// monotonicNow is a time that the processes of one machine can compare.
func monotonicNow() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return time.Now().UnixNano() // no Linux lacks the clock
	}
	return t.Nano()
}

// emitter writes events. Safe for concurrent use.
type emitter struct {
	mu sync.Mutex

	w io.Writer
}

// emit stamps e and writes it. An error means that the demo is gone, and then
// this process is about to be killed.
func (em *emitter) emit(e event) {
	e.AtNs = monotonicNow()
	line, err := json.Marshal(e)
	if err != nil {
		line, _ = json.Marshal(event{Kind: eventFailed, AtNs: e.AtNs, Text: err.Error()})
	}
	em.mu.Lock()
	defer em.mu.Unlock()
	_, _ = em.w.Write(append(line, '\n')) // see above
}

// maxEventBytes bounds one line from a worker.
const maxEventBytes = 1 << 20

// lines splits what a worker writes and hands each event on. It is used by
// the one goroutine that copies the worker's output.
type lines struct {
	rest []byte
	each func(event)
}

// Write implements io.Writer. Lines that are no event are passed over.
func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte{'\n'})
		if !found {
			break
		}
		l.rest = rest
		var e event
		if json.Unmarshal(line, &e) == nil && e.Kind != "" {
			l.each(e)
		}
	}
	if len(l.rest) > maxEventBytes {
		l.rest = nil
	}
	return len(p), nil
}
