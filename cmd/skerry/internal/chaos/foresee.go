package chaos

import (
	"fmt"
	"io"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/internal/connect"
	"github.com/skerry-ft/skerry/internal/printable"
)

// maxForeseen bounds what a dry run shows.
const maxForeseen = 100

// foresight is what a dry run shows.
type foresight struct {
	Total  int        `json:"total"` // how many would come
	Faults []foreseen `json:"faults"`
}

// foreseen is a fault that would come.
type foreseen struct {
	Number  int    `json:"number"`
	AfterMs int64  `json:"after_ms"` // the beginning, if the job is back in time
	Kind    string `json:"kind"`
	Victim  string `json:"victim,omitempty"`
	Peer    string `json:"peer,omitempty"`
	Rank    int    `json:"rank,omitempty"`
	ForMs   int64  `json:"for_ms,omitempty"`
	Leader  string `json:"leader,omitempty"`

	text string
}

// foresee says what would be done if the job stayed as it is.
func (c *config) foresee(r ready, w io.Writer) error {
	p := c.plan(r.kinds)
	all := []foreseen{}
	total := p.Count(c.duration)
	for n := 1; n <= min(total, maxForeseen); n++ {
		f, err := p.Next(n, r.world)
		if err != nil {
			return err
		}
		all = append(all, foreseen{
			Number: n, AfterMs: p.At(n).Milliseconds(), Kind: string(f.Kind), Victim: f.Victim, Peer: f.Peer, Rank: f.Rank,
			ForMs: f.For.Milliseconds(), Leader: string(f.Leader), text: f.String(),
		})
	}
	return c.out.Print(w, foresight{total, all}, func(w io.Writer) error {
		fmt.Fprintf(w, "nothing was done; if job %s stayed as it is, %s would come:\n", printable.Line(c.job), cli.Plural(total, "fault"))
		for _, f := range all {
			after := (time.Duration(f.AfterMs) * time.Millisecond).Round(100 * time.Millisecond)
			fmt.Fprintf(w, "%8v  %s\n", after, printable.Line(connect.Named(f.text)))
		}
		if len(all) < total {
			fmt.Fprintf(w, "these are the first %d of %d\n", len(all), total)
		}
		for _, why := range r.left {
			fmt.Fprintf(w, "left out %s\n", printable.Line(why))
		}
		return nil
	})
}
