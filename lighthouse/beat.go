package lighthouse

import (
	"time"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

// serverBeat is how often the sessions of a job hear from this server though it
// has nothing to say. 0: never, because there is no other server to go to.
func (j *job) serverBeat() time.Duration {
	if !j.leadership.server.cfg.Cluster.Several() {
		return 0
	}
	return j.rules.ServerBeat()
}

// serverBeats keeps time for one session's deliverer, which owns it. The zero
// value beats when the first timing was sent.
type serverBeats struct {
	due   <-chan time.Time // when the next beat is; nil: never
	every time.Duration
}

// sent takes the interval from what the session is told.
func (b *serverBeats) sent(down *skerrypb.Down) {
	var ms uint32
	switch x := down.GetMessage().(type) {
	case *skerrypb.Down_Welcome:
		ms = x.Welcome.GetServerBeatMs()
	case *skerrypb.Down_Timing:
		ms = x.Timing.GetServerBeatMs()
	default:
		return
	}
	if every := min(time.Duration(ms)*time.Millisecond, wire.MaxTimeout); every != b.every {
		b.every, b.due = every, time.Tick(every) // nil for 0
	}
}

// next is a beat.
func (b *serverBeats) next() *skerrypb.Down {
	return &skerrypb.Down{Message: &skerrypb.Down_ServerBeat{ServerBeat: &skerrypb.ServerBeat{}}}
}
