package trace_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/trace"
)

const goodEntry = `{"number":1,"kind":"barrier","scheduled":"2026-11-23T05:00:00Z"}`

// TestReadRefuses what no Recorder has written, and names it.
func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "dump: unexpected EOF"},
		{"{", "unexpected EOF"},
		{"[]", `dump: "[", want {`},
		{`{"version":2}`, "version 2, want 1"},
		{`{"version":1,"rank":3,"replica_ids":["a"]}`, "rank 3 of 1"},
		{`{"version":1,"version":1}`, `field "version" stands twice`},
		{`{"version":1}{`, "something follows the text"},
		{`{"version":1e99}`, "version: "},
		{`{"entries":{}}`, `entries: "{", want [`},
		{`{"entries":[{}]}`, "entry 1 has no number"},
		{`{"entries":[` + goodEntry + `,{"number":2}]}`, "entry 2 has no number, or no time"},
		{`{"entries":[` + goodEntry + `,{"number":"x"}]}`, "entry 2: "},
		{`{"entries":[{"number":1,"scheduled":"2026-11-23T05:00:00Z","shape":[` + strings.Repeat("1,", 64) + `1]}]}`,
			"entry 1 has 65 dimensions, want at most 64"},
		{`{"entries":[{"number":1,"scheduled":"2026-11-23T05:00:00Z","error":"` + strings.Repeat("x", 17<<10) + `"}]}`,
			"the error of entry 1 has 17408 bytes, want at most 16384"},
		{`{"entries":[{"kind":"` + strings.Repeat("x", 1<<20) + `"}]}`, "entry 1 has over 131072 bytes"},
		{`{"cause":"` + strings.Repeat("x", 1<<20) + `"}`, "cause has over 98306 bytes"},
		{`{"replica_ids":["a","` + strings.Repeat("x", 17<<10) + `"]}`, "replica id 1 has 17408 bytes, want at most 16384"},
		{`{"replica_ids":[` + strings.Repeat(`"",`, 1<<16) + `""]}`, "replica_ids: over 65536"},
		{`{"attachments":{"a":"` + strings.Repeat("x", 2<<20) + `"}}`, "attachment has 2097152 bytes, want at most 1048576"},
		{`{"attachments":[]}`, `attachments: "[", want {`},
		{`{"` + strings.Repeat("x", 1<<20) + `":1}`, "a name in dump has over 16384 bytes"},
		{`{"new":"` + strings.Repeat("x", 1<<20) + `"}`, `field "new" has over 131072 bytes`},
	} {
		d, err := trace.Read(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 300 {
			t.Errorf("%.80q read as %.200v, %.300v; want an error with %q", c.text, d, err, c.want)
		}
	}
}

// endless repeats a text without end.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		c := copy(p[n:], e.text[e.at:])
		n, e.at = n+c, (e.at+c)%len(e.text)
	}
	return n, nil
}

// What never ends is refused early, and costs no more than what was valid of it.
func TestReadIsBounded(t *testing.T) {
	for _, c := range []struct {
		begin, rest, want string
		mib               uint64
	}{
		{`{"entries":[`, "{},", "entry 1 has no number", 4},
		{`{"entries":[`, goodEntry + ",", "entries: over 1048576", 3 << 10},
		{`{"entries":[`, " ", "entries has over", 4},
		{`{"entries":[`, "[", "entry 1: ", 4},
		{`{"cause":"`, "x", "cause has over", 4},
		{`{"new":`, "[", `field "new"`, 4},
		{``, "\n", "dump has over", 4},
	} {
		if testing.Short() && c.mib > 4 {
			continue // a million entries
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := trace.Read(io.MultiReader(strings.NewReader(c.begin), &endless{text: c.rest}))
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s%s…: %v, want an error with %q", c.begin, c.rest, err, c.want)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > c.mib {
			t.Errorf("%s%s…: %d MiB were allocated in all, want at most %d", c.begin, c.rest, took, c.mib)
		}
	}
}

// An error as long as a book is dumped as its beginning, and read again.
func TestLongErrorsAreCut(t *testing.T) {
	_, traces := traced(t, 1, trace.Config{})
	traces[0].Abort(pg.Epoch{Cluster: t.Name(), QuorumID: 1}, fmt.Errorf("%s", strings.Repeat("ü", 1<<20)))
	d := traces[0].Dump()
	if len(d.Cause) > 16<<10 || d.Cause != "" && !utf8.ValidString(d.Cause) {
		t.Errorf("a cause of %d bytes", len(d.Cause))
	}
	var out bytes.Buffer
	if err := d.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	if _, err := trace.Read(&out); err != nil {
		t.Error(err)
	}
}

// A dump is shown harmlessly, whatever stands in it.
func TestWriteTextOfAnything(t *testing.T) {
	const esc = "\x1b[2J\nlighthouse: all is well\u009b\x9b"
	d := trace.Dump{
		Group: esc, Backend: esc, Cause: esc, Cluster: esc, Rank: 1 << 30, ReplicaIDs: []string{esc},
		Attachments: map[string]string{esc: esc},
		Entries: []trace.Entry{
			{}, {Kind: esc, Reduce: esc, DType: esc, State: esc, Error: esc, Scheduled: new(time.Time{})},
		},
	}
	checkShown(t, &d)
	d.Rank = 0
	checkShown(t, &d)
}

// checkShown fails if what is written of d for people could steer a terminal.
func checkShown(t *testing.T, d *trace.Dump) {
	t.Helper()
	var out strings.Builder
	if err := d.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	groups := trace.Analyse([]trace.Dump{*d, {Group: d.Group, Cluster: d.Cluster, QuorumID: d.QuorumID,
		GroupRank: d.GroupRank, Rank: d.Rank + 1, ReplicaIDs: []string{"one"}}})
	for i := range groups {
		if err := groups[i].WriteText(&out); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if i := strings.IndexFunc(line, func(r rune) bool { return !strconv.IsPrint(r) }); i >= 0 || !utf8.ValidString(line) {
			t.Fatalf("shown: %q", line)
		}
		if strings.HasPrefix(line, "lighthouse:") {
			t.Fatalf("a line of its own: %q", line)
		}
	}
}

// FuzzRead reads anything as a dump. What is read can be shown, written, and
// read again.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"version":1,"replica_ids":["a"],"entries":[` + goodEntry + `]}`,
		`{"version":1,"group":"g","backend":"tcp","at":"2026-11-23T05:00:00Z","cause":"\u001b","cluster":"c","quorum_id":1,` +
			`"round":2,"group_rank":0,"rank":1,"replica_ids":["a","b"],"forgotten":3,"attachments":{"x":"y\nz"},"other":[1],` +
			`"entries":[{"number":4,"place":2,"kind":"send","peer":7,"tag":-1,"shape":[1,2],"dtype":"float32","state":"done",` +
			`"scheduled":"2026-11-23T05:00:00Z","started":"0001-01-01T00:00:00Z","done":"9999-12-31T23:59:59.999999999Z"}]}`,
		`{"version":1,"entries":null,"attachments":null,"replica_ids":null}`,
		`{"entries":[{}]}`, "[", "nul",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := trace.Read(bytes.NewReader(text))
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		checkShown(t, &d)
		var out bytes.Buffer
		if err := d.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		if _, err := trace.Read(&out); err != nil {
			t.Errorf("%q is read, written, and then not read: %v", text, err)
		}
	})
}
