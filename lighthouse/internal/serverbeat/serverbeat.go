// Package serverbeat keeps time for what a server says on a stream when it has nothing else to
// say, so that a replica notices one that hangs.
package serverbeat

import (
	"time"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
)

// Beats are one stream's, and owned by its sender. The zero value beats when the first timing
// was sent.
type Beats struct {
	Due   <-chan time.Time // when the next beat is; nil: never
	every time.Duration
}

// Sent takes the interval from what the stream is told.
func (b *Beats) Sent(down *skerrypb.Down) {
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
		b.every, b.Due = every, time.Tick(every) // nil for 0
	}
}

// Next is a beat.
func (b *Beats) Next() *skerrypb.Down {
	return &skerrypb.Down{Message: &skerrypb.Down_ServerBeat{ServerBeat: &skerrypb.ServerBeat{}}}
}
