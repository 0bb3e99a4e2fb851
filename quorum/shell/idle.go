package shell

import "time"

const (
	// emptyJobKept is how long a job is kept that never formed a quorum and has no
	// replica: a client named it, and left.
	emptyJobKept = 2 * time.Minute

	// idleJobKept is how long the ledger of a job without replicas is kept, for
	// those who come to look at its history, and for its rules.
	idleJobKept = 7 * 24 * time.Hour
)

// Idle is since when a job has had no replica, as far as was looked. The zero value
// is a job in use.
type Idle struct{ Since time.Time }

// Forget notes whether a job is in use now, and says that it is to be forgotten: it
// was found unused for long enough. formed says that its ledger has a quorum. (Names
// that clients make up would fill the server.)
//
//	its name was made up, and its client left    two minutes from the first look that finds it so
//	it has trained, and all have gone            a week from then; its ids go on above its last
//	                                             one, should it come again (Q1)
func (i *Idle) Forget(now time.Time, used, formed bool) bool {
	if used {
		i.Since = time.Time{}
		return false
	}
	if i.Since.IsZero() {
		i.Since = now
	}
	kept := emptyJobKept
	if formed {
		kept = idleJobKept
	}
	return now.Sub(i.Since) >= kept
}
