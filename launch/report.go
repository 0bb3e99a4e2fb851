package launch

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/launch/internal/child"
)

// Failure is how a replica's start ended: the first of its ranks that died.
type Failure struct {
	Replica string    `json:"replica"`
	Rank    int       `json:"rank"`
	Attempt int       `json:"attempt"` // starts of the replica before this one
	PID     int       `json:"pid"`
	At      time.Time `json:"at"`
	// Status is what a shell would say: the exit status, or 128 and the signal.
	Status int `json:"status"`
	// Signal is what killed the rank; 0: none.
	Signal syscall.Signal `json:"signal,omitempty"`
	// Message is the exception that torch's @record has caught, if the rank has it.
	Message string `json:"message,omitempty"`
	// Tail are the last lines that the rank wrote, 20 at most.
	Tail []string `json:"tail,omitempty"`
	// Log is the file with all of them, if there is one.
	Log string `json:"log,omitempty"`

	how child.Status
}

// Error implements error: who died and of what, in one line, without what it wrote.
func (f *Failure) Error() string {
	text := fmt.Sprintf("%s rank %d (pid %d, attempt %d): %v", f.Replica, f.Rank, f.PID, f.Attempt, f.how)
	if f.Message != "" {
		text += ": " + printable.Line(f.Message)
	}
	return text
}

// JobError says that too few replicas are left.
type JobError struct {
	Left, Want int
	// Cause is the last crash of the replica that was given up last.
	Cause *Failure
}

func (e *JobError) Error() string {
	return fmt.Sprintf("%d of the %d replicas that must be there can run: %v", e.Left, e.Want, e.Cause)
}

// Unwrap gives the cause.
func (e *JobError) Unwrap() error { return e.Cause }

// Outcome is what became of a replica.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"     // all ranks ended with 0
	Stopped Outcome = "stopped"  // told to stop, it ended otherwise, or was killed
	GivenUp Outcome = "given up" // it crashed more often than the budget has
)

// ReplicaReport tells of one replica.
type ReplicaReport struct {
	Replica  string  `json:"replica"`
	Outcome  Outcome `json:"outcome"`
	Restarts int     `json:"restarts"`
	// Moved is how many of its restarts a spare was; of a spare, how many places it took.
	Moved int `json:"moved,omitempty"`
	// Failures are the last of its crashes, maxFailures at most.
	Failures []*Failure `json:"failures,omitempty"`
}

// maxFailures bounds what a report has of one replica.
const maxFailures = 5

// Report tells of a run.
type Report struct {
	Job      string          `json:"job"`
	Took     time.Duration   `json:"took_ns"`
	Replicas []ReplicaReport `json:"replicas"`
	// Spares are those of Config.Spares, which a job needs none of.
	Spares []ReplicaReport `json:"spares,omitempty"`
}

// Restarts is how often replicas were started again.
func (r Report) Restarts() (n int) {
	for _, one := range r.Replicas {
		n += one.Restarts
	}
	return n
}

// moved is how many of them spares were.
func (r Report) moved() (n int) {
	for _, one := range r.Replicas {
		n += one.Moved
	}
	return n
}

// Write writes the report for people: a line, and one for each replica that had trouble.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	count := make(map[Outcome]int)
	for _, one := range r.Replicas {
		count[one.Outcome]++
	}
	var parts []string
	for _, o := range []Outcome{Done, Stopped, GivenUp} {
		if count[o] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[o], o))
		}
	}
	moved := ""
	if len(r.Spares) > 0 {
		moved = fmt.Sprintf(", %d of them by spares", r.moved())
	}
	fmt.Fprintf(&b, "job %s: replicas: %s; restarts: %d%s; took %v\n", printable.Line(r.Job), strings.Join(parts, ", "), r.Restarts(), moved, r.Took.Round(10*time.Millisecond))
	for _, one := range slices.Concat(r.Replicas, r.Spares) {
		if one.Outcome != GivenUp && one.Restarts == 0 && (one.Outcome == Done || len(one.Failures) == 0) {
			continue
		}
		fmt.Fprintf(&b, "  %s: %s, restarts: %d\n", one.Replica, one.Outcome, one.Restarts)
		for _, f := range slices.Backward(one.Failures) {
			fmt.Fprintf(&b, "    %s %v\n", f.At.Format(time.TimeOnly), f)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteTail writes what the rank wrote last, for people.
func (f *Failure) WriteTail(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "last lines of %s rank %d:\n", f.Replica, f.Rank)
	for _, line := range f.Tail {
		fmt.Fprintf(&b, "  %s\n", printable.Text(line))
	}
	if f.Log != "" {
		fmt.Fprintf(&b, "all of them: %s\n", f.Log)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
