package shell

import "time"

// stallAfter is how late a wake-up must be for a process to count as descheduled.
const stallAfter = 150 * time.Millisecond

// Turns finds out that the process which runs a Machine was itself descheduled. Such
// a process doubts itself before it accuses others (PROTOCOL §6): their joins and
// beats lie in its socket. The shell gives what Turns returns to Machine.Doubt. The
// zero value has had no turn; it is owned by one goroutine.
type Turns struct {
	// Due is when the Machine is to be woken, as far as the shell has been told since
	// the last turn; zero: never.
	Due time.Time

	last time.Time // the last turn, or the end of a stall
}

// NewTurns begins to count at now.
func NewTurns(now time.Time) Turns { return Turns{last: now} }

// Overdue says that it is time to wake the Machine.
func (t *Turns) Overdue(now time.Time) bool { return !t.Due.IsZero() && !now.Before(t.Due) }

// Begin begins a turn, which answers what was due. It returns for how long nothing
// could be heard: since the last turn, if a wake-up is overdue, for when in that
// pause the process stopped is not known; else 0.
func (t *Turns) Begin(now time.Time) (deaf time.Duration) {
	if !t.Due.IsZero() && now.Sub(t.Due) > stallAfter {
		deaf = now.Sub(t.last)
	}
	t.Due, t.last = time.Time{}, now
	return deaf
}

// Waited is Begin for a turn that has itself waited since it began, say for a write to
// the ledger: nothing was heard meanwhile either.
func (t *Turns) Waited(now time.Time, took time.Duration) (deaf time.Duration) {
	if took <= stallAfter {
		return 0
	}
	deaf = now.Sub(t.last)
	t.last = now
	return deaf
}
