package pg

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Bounds on a dump that is read. What a Trace writes is below them; what is above
// is refused before it is decoded.
const (
	maxTraceBytes       = 1 << 30   // of the file
	maxTraceText        = 16 << 10  // of a cause, an error or a name
	maxTraceEntryBytes  = 128 << 10 // of an entry as it stands in the file
	maxTraceReplicas    = 1 << 16
	maxTraceAttachments = 64
	maxTraceAttachment  = 4 << 20 // of one, as it stands in the file
	maxTraceShape       = 64      // dimensions
)

// ReadTrace reads what WriteJSON wrote, value by value: a dump that no Trace has
// written costs no more memory than its valid part, and the error names what was
// wrong with the rest. Its texts are as they stand in the file, and may hold
// anything; WriteText shows them harmlessly.
func ReadTrace(r io.Reader) (TraceDump, error) {
	in := newTraceReader(r)
	var d TraceDump
	if err := in.dump(&d); err != nil {
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

// traceReader decodes a dump and lets no single value take more than it may.
type traceReader struct {
	dec *json.Decoder
	in  *leash
}

func newTraceReader(r io.Reader) *traceReader {
	in := &leash{r: r}
	return &traceReader{dec: json.NewDecoder(in), in: in}
}

// leash is a reader that ends with an error where a value is longer than it may be.
type leash struct {
	r     io.Reader
	read  int64
	until int64 // bytes of the stream that may be read by now
	what  string
	most  int64 // bytes of what
}

// Read implements io.Reader.
func (l *leash) Read(p []byte) (int, error) {
	switch {
	case l.read >= maxTraceBytes:
		return 0, fmt.Errorf("over %d bytes", maxTraceBytes)
	case l.read >= l.until:
		return 0, fmt.Errorf("%s has over %d bytes", l.what, l.most)
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.until-l.read, maxTraceBytes-l.read)])
	l.read += int64(n)
	return n, err
}

// allow says what is read next, and how many bytes it may have.
func (t *traceReader) allow(what string, most int64) {
	t.in.what, t.in.most, t.in.until = what, most, t.dec.InputOffset()+most
}

// value decodes the next value, of at most so many bytes.
func (t *traceReader) value(what string, most int64, into any) error {
	t.allow(what, most)
	if err := t.dec.Decode(into); err != nil {
		return wrapTrace(what, err)
	}
	return nil
}

// wrapTrace says where an error was, unless it says so itself.
func wrapTrace(what string, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if strings.HasPrefix(err.Error(), what) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// delim reads the next token, which must be that delimiter.
func (t *traceReader) delim(what string, want json.Delim) error {
	t.allow(what, maxTraceText)
	got, err := t.dec.Token()
	if err != nil {
		return wrapTrace(what, err)
	}
	if got != want {
		return fmt.Errorf("%s: %.40q, want %v", what, fmt.Sprint(got), want)
	}
	return nil
}

// text decodes a string.
func (t *traceReader) text(what string, into *string) error {
	if err := t.value(what, 6*maxTraceText, into); err != nil { // \u0000 is six bytes
		return err
	}
	return boundText(what, *into)
}

func boundText(what, s string) error {
	if len(s) > maxTraceText {
		return fmt.Errorf("%s has %d bytes, want at most %d", what, len(s), maxTraceText)
	}
	return nil
}

// list reads a list, or null, of at most most values, each of which read decodes.
func (t *traceReader) list(what string, most int, read func() error) error {
	t.allow(what, maxTraceText)
	switch first, err := t.dec.Token(); {
	case err != nil:
		return wrapTrace(what, err)
	case first == nil:
		return nil
	case first != json.Delim('['):
		return fmt.Errorf("%s: %.40q, want a list", what, fmt.Sprint(first))
	}
	for n := 0; t.more(what); n++ {
		if n == most {
			return fmt.Errorf("%s: over %d", what, most)
		}
		if err := read(); err != nil {
			return err
		}
	}
	return t.delim(what, ']')
}

// more says whether the list or object goes on.
func (t *traceReader) more(what string) bool {
	t.allow(what, maxTraceText) // of white space
	return t.dec.More()
}

// dump reads a whole dump, and what follows it: nothing.
func (t *traceReader) dump(d *TraceDump) error {
	if err := t.delim("dump", '{'); err != nil {
		return err
	}
	had := make(map[string]bool)
	for t.more("dump") {
		t.allow("a field's name", maxTraceText)
		token, err := t.dec.Token()
		if err != nil {
			return wrapTrace("a field's name", err)
		}
		name, _ := token.(string) // an object's keys are strings, or that was the error
		if had[name] {
			return fmt.Errorf("field %.40q stands twice", name)
		}
		if len(had) >= maxTraceAttachments {
			return fmt.Errorf("over %d fields", maxTraceAttachments)
		}
		had[name] = true
		if err := t.field(d, name); err != nil {
			return err
		}
	}
	if err := t.delim("dump", '}'); err != nil {
		return err
	}
	t.allow("what follows the dump", maxTraceText)
	if _, err := t.dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the dump")
	}
	return nil
}

// field reads one field of a dump. One that this version does not know is skipped.
func (t *traceReader) field(d *TraceDump, name string) error {
	numbers := map[string]any{
		"version": &d.Version, "at": &d.At, "quorum_id": &d.QuorumID, "round": &d.Round,
		"group_rank": &d.GroupRank, "rank": &d.Rank, "forgotten": &d.Forgotten,
	}
	texts := map[string]*string{"group": &d.Group, "backend": &d.Backend, "cause": &d.Cause, "cluster": &d.Cluster}
	switch {
	case numbers[name] != nil:
		return t.value(name, maxTraceText, numbers[name])
	case texts[name] != nil:
		return t.text(name, texts[name])
	}
	switch name {
	case "replica_ids":
		return t.list(name, maxTraceReplicas, func() error {
			var id string
			err := t.text(fmt.Sprintf("replica id %d", len(d.ReplicaIDs)), &id)
			d.ReplicaIDs = append(d.ReplicaIDs, id)
			return err
		})
	case "entries":
		return t.list(name, MaxTraceEntries, func() error {
			e, err := t.entry(len(d.Entries) + 1)
			d.Entries = append(d.Entries, e)
			return err
		})
	case "attachments":
		return t.attachments(d)
	}
	var skipped json.RawMessage
	return t.value(name, maxTraceEntryBytes, &skipped)
}

// attachments reads an object of texts, or null.
func (t *traceReader) attachments(d *TraceDump) error {
	const what = "attachments"
	t.allow(what, maxTraceText)
	switch first, err := t.dec.Token(); {
	case err != nil:
		return wrapTrace(what, err)
	case first == nil:
		return nil
	case first != json.Delim('{'):
		return fmt.Errorf("%s: %.40q, want an object", what, fmt.Sprint(first))
	}
	d.Attachments = make(map[string]string)
	for t.more(what) {
		if len(d.Attachments) == maxTraceAttachments {
			return fmt.Errorf("attachments: over %d", maxTraceAttachments)
		}
		token, err := t.dec.Token()
		if err != nil {
			return wrapTrace(what, err)
		}
		name, _ := token.(string)
		var s string
		if err := t.value("attachment", maxTraceAttachment, &s); err != nil {
			return err
		}
		d.Attachments[name] = s
	}
	return t.delim(what, '}')
}

// entry reads the n-th entry.
func (t *traceReader) entry(n int) (TraceEntry, error) {
	what := fmt.Sprintf("entry %d", n)
	var e TraceEntry
	if err := t.value(what, maxTraceEntryBytes, &e); err != nil {
		return e, err
	}
	if e.Number == 0 || e.Scheduled == nil {
		return e, fmt.Errorf("%s has no number, or no time at which it was scheduled", what)
	}
	if len(e.Shape) > maxTraceShape {
		return e, fmt.Errorf("%s has %d dimensions, want at most %d", what, len(e.Shape), maxTraceShape)
	}
	return e, boundText("the error of "+what, e.Error)
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
