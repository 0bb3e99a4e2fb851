package printable_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/printable"
)

// hostile are texts that a terminal would obey, and what is shown of them.
var hostile = []struct{ text, line string }{
	{"a plain cause: link 3 broke, ü ✓", "a plain cause: link 3 broke, ü ✓"},
	{"", ""},
	{"\x1b[2J\x1b[H", `\x1b[2J\x1b[H`},
	{"\x1b]0;title\a", `\x1b]0;title\a`},
	{"one\nlighthouse: all is well", `one\nlighthouse: all is well`},
	{"over\rwritten\b\b", `over\rwritten\b\b`},
	{"a\tb", `a\tb`},
	{"\u009b2J", `\u009b2J`},                 // CSI in one character
	{"\x9b2J", `\x9b2J`},                     // and in one byte, which is no UTF-8
	{"abc\u202etxt.exe", `abc\u202etxt.exe`}, // right to left from here
	{"\x7f\x00", `\x7f\x00`},
	{"\U000e0001", `\U000e0001`},
}

func TestLine(t *testing.T) {
	t.Parallel()
	for _, c := range hostile {
		if got := printable.Line(c.text); got != c.line {
			t.Errorf("Line(%q) = %q, want %q", c.text, got, c.line)
		}
	}
	if got := printable.Text("a\n\x1bb\n"); got != "a\n\\x1bb\n" {
		t.Errorf("Text = %q", got)
	}
}

// FuzzLine: nothing that is shown is unprintable, and what is printable is shown
// as it is.
func FuzzLine(f *testing.F) {
	for _, c := range hostile {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line := printable.Line(s)
		if i := strings.IndexFunc(line, func(r rune) bool { return !strconv.IsPrint(r) }); i >= 0 || !utf8.ValidString(line) {
			t.Errorf("Line(%q) = %q", s, line)
		}
		if again := printable.Line(line); again != line {
			t.Errorf("Line(%q) = %q, want it as it is", line, again)
		}
		value, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		text := printable.JSON(value)
		if i := bytes.IndexFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }); i >= 0 || !utf8.Valid(text) {
			t.Errorf("JSON(%q) = %q", value, text)
		}
		var got, want map[string]string
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("JSON(%q) = %q: %v", value, text, err)
		}
		if err := json.Unmarshal(value, &want); err != nil {
			t.Fatal(err)
		}
		for k := range want {
			if got[k] != want[k] {
				t.Errorf("JSON(%q) = %q, which means %q", value, text, got)
			}
		}
	})
}

// What no encoder of ours would write, and a hostile server may.
func TestJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{\n\t\"a\": \"\u009bm\"\n}\n": "{\n\t\"a\": \"\\u009bm\"\n}\n",
		"\"\x9bm\"":                    `"\ufffdm"`,
		"\"\U000e0001\"":               `"\udb40\udc01"`,
		"\"\x7f\"":                     `"\u007f"`,
		`"ü"`:                          `"ü"`,
	} {
		var out bytes.Buffer
		if n, err := printable.JSONWriter(&out).Write([]byte(text)); err != nil || n != len(text) || out.String() != want {
			t.Errorf("JSON(%q) = %q, %d, %v; want %q", text, out.String(), n, err, want)
		}
	}
}

// Every place of a log line that a peer's text can reach.
func TestEvent(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := zerolog.New(zerolog.ConsoleWriter{Out: &out, NoColor: true, FormatPrepare: printable.Event})
	for _, c := range hostile {
		out.Reset()
		log.Warn().Str("id", c.text).Strs("ids", []string{c.text}).AnErr("error", errText(c.text)).
			Dict("in", zerolog.Dict().Str("id", c.text)).Msg(c.text)
		line := strings.TrimSuffix(out.String(), "\n")
		if i := strings.IndexFunc(line, func(r rune) bool { return !strconv.IsPrint(r) }); i >= 0 {
			t.Errorf("%q is logged as %q", c.text, line)
		}
	}
}

type errText string

func (e errText) Error() string { return string(e) }

// What is cut keeps to its bytes, ends at the edge of a rune and says that it was cut.
func TestCut(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ in, want string }{
		{"", ""},
		{"12345678", "12345678"},
		{"123456789", "12345…"},
		{"1234ü6789", "1234…"},
	} {
		if got := printable.Cut(tc.in, 8); got != tc.want {
			t.Errorf("Cut(%q, 8) = %q, want %q", tc.in, got, tc.want)
		}
	}
}
