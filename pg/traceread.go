package pg

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/skerry-ft/skerry/internal/boundjson"
)

// Bounds on a dump that is read. What a Trace writes is below them; what is above
// is refused before it is decoded.
const (
	maxTraceBytes       = 1 << 30   // of the file
	maxTraceText        = 16 << 10  // of a cause, an error or a name
	maxTraceEntryBytes  = 128 << 10 // of an entry as it stands in the file
	maxTraceReplicas    = 1 << 16
	maxTraceAttachments = 64
	maxTraceAttachment  = 1 << 20 // of one
	maxTraceShape       = 64      // dimensions
	maxTraceFields      = 64      // of a dump
	maxTraceNumber      = 64      // bytes of a number, or a time
)

// ReadTrace reads what WriteJSON wrote, value by value: a dump that no Trace has
// written costs no more memory than its valid part, and the error names what was
// wrong with the rest. Its texts are as they stand in the file, and may hold
// anything; WriteText shows them harmlessly.
func ReadTrace(r io.Reader) (TraceDump, error) {
	in := boundjson.NewDecoder(r, maxTraceBytes)
	var d TraceDump
	err := in.Object("dump", maxTraceFields, func(name string) error { return readTraceField(in, &d, name) })
	if err == nil {
		err = in.End()
	}
	if err != nil {
		return TraceDump{}, fmt.Errorf("read trace: %w", err)
	}
	switch {
	case d.Version != TraceVersion:
		return TraceDump{}, fmt.Errorf("read trace: version %d, want %d", d.Version, TraceVersion)
	case d.Rank < 0 || d.Rank >= len(d.ReplicaIDs):
		return TraceDump{}, fmt.Errorf("read trace: rank %d of %d", d.Rank, len(d.ReplicaIDs))
	}
	return d, nil
}

// readTraceField reads one field of a dump. One that this version does not know is
// skipped.
func readTraceField(in *boundjson.Decoder, d *TraceDump, name string) error {
	numbers := map[string]any{
		"version": &d.Version, "at": &d.At, "quorum_id": &d.QuorumID, "round": &d.Round,
		"group_rank": &d.GroupRank, "rank": &d.Rank, "forgotten": &d.Forgotten,
	}
	texts := map[string]*string{"group": &d.Group, "backend": &d.Backend, "cause": &d.Cause, "cluster": &d.Cluster}
	switch {
	case numbers[name] != nil:
		return in.Value(name, maxTraceNumber, numbers[name])
	case texts[name] != nil:
		return in.Text(name, maxTraceText, texts[name])
	}
	switch name {
	case "replica_ids":
		return in.List(name, maxTraceReplicas, func(n int) error {
			d.ReplicaIDs = append(d.ReplicaIDs, "")
			return in.Text(fmt.Sprintf("replica id %d", n), maxTraceText, &d.ReplicaIDs[n])
		})
	case "entries":
		return in.List(name, MaxTraceEntries, func(n int) error {
			d.Entries = append(d.Entries, TraceEntry{})
			return readTraceEntry(in, fmt.Sprintf("entry %d", n+1), &d.Entries[n])
		})
	case "attachments":
		d.Attachments = make(map[string]string)
		return in.Object(name, maxTraceAttachments, func(name string) error {
			var s string
			err := in.Text("attachment", maxTraceAttachment, &s)
			d.Attachments[name] = s
			return err
		})
	}
	var skipped json.RawMessage
	return in.Value(fmt.Sprintf("field %.40q", name), maxTraceEntryBytes, &skipped)
}

// readTraceEntry reads one entry.
func readTraceEntry(in *boundjson.Decoder, what string, e *TraceEntry) error {
	if err := in.Value(what, maxTraceEntryBytes, e); err != nil {
		return err
	}
	switch {
	case e.Number == 0 || e.Scheduled == nil:
		return fmt.Errorf("%s has no number, or no time at which it was scheduled", what)
	case len(e.Shape) > maxTraceShape:
		return fmt.Errorf("%s has %d dimensions, want at most %d", what, len(e.Shape), maxTraceShape)
	case len(e.Error) > maxTraceText:
		return fmt.Errorf("the error of %s has %d bytes, want at most %d", what, len(e.Error), maxTraceText)
	}
	return nil
}

// boundedTrace is s as a dump holds it: whole, or its beginning.
func boundedTrace(s string) string {
	if len(s) <= maxTraceText {
		return s
	}
	const rest = "…"
	end := maxTraceText - len(rest)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + rest
}
