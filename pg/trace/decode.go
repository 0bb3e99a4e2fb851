package trace

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/skerry-ft/skerry/internal/boundjson"
	"github.com/skerry-ft/skerry/internal/printable"
)

// Bounds on a dump that is read. What a Recorder writes is below them; what is above
// is refused before it is decoded.
const (
	maxBytes       = 1 << 30   // of the file
	maxText        = 16 << 10  // of a cause, an error or a name
	maxEntryBytes  = 128 << 10 // of an entry as it stands in the file
	maxReplicas    = 1 << 16
	maxAttachments = 64
	maxAttachment  = 1 << 20 // of one
	maxShape       = 64      // dimensions
	maxFields      = 64      // of a dump
	maxNumber      = 64      // bytes of a number, or a time
)

// Read reads what WriteJSON wrote, value by value: a dump that no Recorder has
// written costs no more memory than its valid part, and the error names what was
// wrong with the rest. Its texts are as they stand in the file, and may hold
// anything; WriteText shows them harmlessly.
func Read(r io.Reader) (Dump, error) {
	in := boundjson.NewDecoder(r, maxBytes)
	var d Dump
	err := in.Object("dump", maxFields, func(name string) error { return readField(in, &d, name) })
	if err == nil {
		err = in.End()
	}
	if err != nil {
		return Dump{}, fmt.Errorf("read trace: %w", err)
	}
	switch {
	case d.Version != Version:
		return Dump{}, fmt.Errorf("read trace: version %d, want %d", d.Version, Version)
	case d.Rank < 0 || d.Rank >= len(d.ReplicaIDs):
		return Dump{}, fmt.Errorf("read trace: rank %d of %d", d.Rank, len(d.ReplicaIDs))
	}
	return d, nil
}

// readField reads one field of a dump. One that this version does not know is
// skipped.
func readField(in *boundjson.Decoder, d *Dump, name string) error {
	numbers := map[string]any{
		"version": &d.Version, "at": &d.At, "quorum_id": &d.QuorumID, "round": &d.Round,
		"group_rank": &d.GroupRank, "rank": &d.Rank, "forgotten": &d.Forgotten,
	}
	texts := map[string]*string{"group": &d.Group, "backend": &d.Backend, "cause": &d.Cause, "cluster": &d.Cluster}
	switch {
	case numbers[name] != nil:
		return in.Value(name, maxNumber, numbers[name])
	case texts[name] != nil:
		return in.Text(name, maxText, texts[name])
	}
	switch name {
	case "replica_ids":
		return in.List(name, maxReplicas, func(n int) error {
			d.ReplicaIDs = append(d.ReplicaIDs, "")
			return in.Text(fmt.Sprintf("replica id %d", n), maxText, &d.ReplicaIDs[n])
		})
	case "entries":
		return in.List(name, MaxEntries, func(n int) error {
			d.Entries = append(d.Entries, Entry{})
			return readEntry(in, fmt.Sprintf("entry %d", n+1), &d.Entries[n])
		})
	case "attachments":
		d.Attachments = make(map[string]string)
		return in.Object(name, maxAttachments, func(name string) error {
			var s string
			err := in.Text("attachment", maxAttachment, &s)
			d.Attachments[name] = s
			return err
		})
	}
	var skipped json.RawMessage
	return in.Value(fmt.Sprintf("field %.40q", name), maxEntryBytes, &skipped)
}

// readEntry reads one entry.
func readEntry(in *boundjson.Decoder, what string, e *Entry) error {
	if err := in.Value(what, maxEntryBytes, e); err != nil {
		return err
	}
	switch {
	case e.Number == 0 || e.Scheduled == nil:
		return fmt.Errorf("%s has no number, or no time at which it was scheduled", what)
	case len(e.Shape) > maxShape:
		return fmt.Errorf("%s has %d dimensions, want at most %d", what, len(e.Shape), maxShape)
	case len(e.Error) > maxText:
		return fmt.Errorf("the error of %s has %d bytes, want at most %d", what, len(e.Error), maxText)
	}
	return nil
}

// bounded is s as a dump holds it: whole, or its beginning.
func bounded(s string) string { return printable.Cut(s, maxText) }
