// Package printable shows text that came from a peer or a file harmlessly on a
// terminal. An id, a cause or a name may hold escape sequences that clear the
// screen, move the cursor, rename the window or answer in the user's place, line
// ends that forge lines of ours, and marks that turn the direction of writing.
// They are shown as what they are, in Go's escapes: "\x1b[2J".
//
// All functions are safe for concurrent use, return their argument as it is where
// nothing has to be replaced, and never fail.
package printable

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Line is s as a part of one line: what is not printable, line ends and tabs
// included, and what is not UTF-8, is escaped. A space is printable.
func Line(s string) string { return escape(s, "") }

// Text is s in as many lines as it has: a line end stays one.
func Text(s string) string { return escape(s, "\n") }

// Cut is s in at most most bytes: all of it, or its beginning, up to the edge of a
// rune, and an ellipsis. It escapes nothing.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const ellipsis = "…"
	end := most - len(ellipsis)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}

// Lines is Line of each of s.
func Lines(s []string) []string {
	out := make([]string, len(s))
	for i := range s {
		out[i] = Line(s[i])
	}
	return out
}

// escape escapes all of s that is neither printable nor in keep.
func escape(s, keep string) string {
	var b strings.Builder
	done := 0 // bytes of s that are in b
	for i, width := 0, 0; i < len(s); i += width {
		var r rune
		r, width = utf8.DecodeRuneInString(s[i:])
		broken := r == utf8.RuneError && width == 1
		if !broken && (strconv.IsPrint(r) || strings.ContainsRune(keep, r)) {
			continue
		}
		b.WriteString(s[done:i])
		done = i + width
		if broken {
			fmt.Fprintf(&b, `\x%02x`, s[i])
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// JSON is a JSON text with the same meaning in which every character that is not
// printable is escaped: encoding/json leaves those above U+007E as they are, and
// U+009B begins a control sequence as ESC and a bracket do. Line ends and tabs
// between values stay.
func JSON(text []byte) []byte {
	var out []byte
	done := 0
	for i, width := 0, 0; i < len(text); i += width {
		if text[i] < utf8.RuneSelf && text[i] != 0x7f {
			width = 1 // what JSON allows below 0x20 is white space
			continue
		}
		var r rune
		r, width = utf8.DecodeRune(text[i:])
		if (r != utf8.RuneError || width > 1) && strconv.IsPrint(r) {
			continue
		}
		out = append(out, text[done:i]...)
		done = i + width
		if r > 0xffff {
			const half = 1 << 10
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r/half, 0xdc00+r%half)
			continue
		}
		out = fmt.Appendf(out, `\u%04x`, r)
	}
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}

// JSONWriter writes to w what JSON makes of each Write, which must be whole
// characters: encoders and loggers write whole texts.
func JSONWriter(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ w io.Writer }

// Write implements io.Writer.
func (j jsonWriter) Write(p []byte) (int, error) {
	if _, err := j.w.Write(JSON(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Event makes a log event printable, for the FormatPrepare of zerolog's
// ConsoleWriter: that one quotes a field that is a string, and writes the message,
// and lists and objects in fields, as they are. It returns nil.
func Event(fields map[string]any) error {
	for name, v := range fields {
		if _, isString := v.(string); !isString || name == "message" {
			fields[name] = value(v)
		}
	}
	return nil
}

// value is v with all strings within made printable.
func value(v any) any {
	switch v := v.(type) {
	case string:
		return Line(v)
	case []any:
		for i := range v {
			v[i] = value(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = value(v[name])
		}
	}
	return v
}
