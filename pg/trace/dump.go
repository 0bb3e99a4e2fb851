package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/pg"
)

// Version is the version of the format of dumps.
const Version = 1

// Dump is what one rank's Recorder of one group remembers.
type Dump struct {
	Version    int       `json:"version"`
	Group      string    `json:"group"`
	Backend    string    `json:"backend"`
	At         time.Time `json:"at"`
	Cause      string    `json:"cause,omitempty"` // why the group broke
	Cluster    string    `json:"cluster"`
	QuorumID   int64     `json:"quorum_id"`
	Round      int64     `json:"round"`
	GroupRank  int       `json:"group_rank"`
	Rank       int       `json:"rank"`
	ReplicaIDs []string  `json:"replica_ids"` // by rank
	// Forgotten ops were there before the first entry.
	Forgotten uint64 `json:"forgotten,omitempty"`
	// Attachments are what the backend knows of the matter, by name: for example
	// what NCCL's RAS said.
	Attachments map[string]string `json:"attachments,omitempty"`

	Entries []Entry `json:"entries"`
}

// Entry is one op.
type Entry struct {
	Number   uint64 `json:"number"`          // of all ops of this rank, from 1
	Place    uint64 `json:"place,omitempty"` // among the epoch's collectives, from 1; 0: send or receive, or refused
	Batch    uint64 `json:"batch,omitempty"` // number of the first op of its batch
	Seq      uint64 `json:"seq,omitempty"`   // the backend's, once it was done
	Cluster  string `json:"cluster"`
	QuorumID int64  `json:"quorum_id"`
	Round    int64  `json:"round"`
	Kind     string `json:"kind"`
	Reduce   string `json:"reduce,omitempty"`
	DType    string `json:"dtype,omitempty"`
	Shape    []int  `json:"shape,omitempty"` // of the first tensor
	Tensors  int    `json:"tensors,omitempty"`
	InBytes  int    `json:"in_bytes"`
	OutBytes int    `json:"out_bytes"`
	Root     int    `json:"root"`
	Peer     int    `json:"peer"`
	Tag      int    `json:"tag"`
	State    State  `json:"state"`
	Error    string `json:"error,omitempty"`

	Scheduled *time.Time `json:"scheduled,omitempty"`
	Started   *time.Time `json:"started,omitempty"`
	Done      *time.Time `json:"done,omitempty"`
}

// WriteJSON writes d as one JSON object.
func (d *Dump) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(d)
}

// WriteText writes d as a table for people, a line per op. Whatever d holds, what is
// not printable in its texts is escaped.
func (d *Dump) WriteText(w io.Writer) error {
	id := "?"
	if d.Rank >= 0 && d.Rank < len(d.ReplicaIDs) {
		id = printable.Line(d.ReplicaIDs[d.Rank])
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "group %s (%s) rank %d of %d (%s), group rank %d, quorum %d round %d of %s, at %s\n",
		printable.Line(d.Group), printable.Line(d.Backend), d.Rank, len(d.ReplicaIDs), id, d.GroupRank, d.QuorumID, d.Round,
		printable.Line(d.Cluster), d.At.Format(time.RFC3339Nano))
	if d.Cause != "" {
		fmt.Fprintf(t, "broken by: %s\n", printable.Line(d.Cause))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Attachments)) {
		text := printable.Text(strings.TrimSpace(d.Attachments[name]))
		fmt.Fprintf(t, "%s:\n  %s\n", printable.Line(name), strings.ReplaceAll(text, "\n", "\n  "))
	}
	if d.Forgotten > 0 {
		fmt.Fprintf(t, "%d earlier ops forgotten\n", d.Forgotten)
	}
	fmt.Fprint(t, "op\tcollective\tquorum\twhat\tstate\tscheduled\twaited\ttook\terror\n")
	for i := range d.Entries {
		e := &d.Entries[i]
		place := "-"
		if e.Place > 0 {
			place = fmt.Sprint(e.Place)
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Number, place, e.QuorumID, printable.Line(e.What()),
			printable.Line(string(e.State)), timeText(e.Scheduled), between(e.Scheduled, e.Started), between(e.Started, e.Done),
			printable.Line(e.Error))
	}
	return t.Flush()
}

// What describes the op: "all-reduce float32[10] sum".
func (e *Entry) What() string {
	var s strings.Builder
	s.WriteString(e.Kind)
	if e.DType != "" {
		fmt.Fprintf(&s, " %s%v", e.DType, e.Shape)
	}
	if e.Tensors > 1 {
		fmt.Fprintf(&s, " and %d more", e.Tensors-1)
	}
	if e.Reduce != "" {
		s.WriteString(" " + e.Reduce)
	}
	switch e.Kind {
	case pg.KindReduce.String(), pg.KindBroadcast.String(), pg.KindGather.String(), pg.KindScatter.String():
		fmt.Fprintf(&s, " root %d", e.Root)
	case pg.KindSend.String():
		fmt.Fprintf(&s, " to %d tag %d", e.Peer, e.Tag)
	case pg.KindRecv.String():
		fmt.Fprintf(&s, " from %d tag %d", e.Peer, e.Tag)
	}
	return s.String()
}

// timeText is when an op was scheduled.
func timeText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format("15:04:05.000000")
}

func between(a, b *time.Time) string {
	if a == nil || b == nil {
		return "-"
	}
	return b.Sub(*a).Round(time.Microsecond).String()
}

// Files gives a Config.Dump that writes each dump under prefix, once
// as JSON and once as text: "<prefix><group>_g<group rank>_r<rank>_q<quorum>.json"
// and ".txt". A prefix that ends in a separator is a directory. A later dump of
// the same epoch replaces the earlier.
func Files(prefix string) func(Dump) error {
	return func(d Dump) error {
		base := fmt.Sprintf("%s%s_g%d_r%d_q%d", prefix, fileName(d.Group), d.GroupRank, d.Rank, d.QuorumID)
		if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
			return fmt.Errorf("dump trace: %w", err)
		}
		return errors.Join(writeFile(base+".json", d.WriteJSON), writeFile(base+".txt", d.WriteText))
	}
}

// writeFile writes a file whole or not at all.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".trace-*")
	if err != nil {
		return fmt.Errorf("dump trace: %w", err)
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // what is left of it is of no use
		return fmt.Errorf("dump trace %s: %w", name, err)
	}
	return nil
}

// fileName is s with nothing in it that a path could trip over.
func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		}
		return '_'
	}, s)
}
