package watch

import (
	"strings"
	"unicode/utf8"
)

// style is how a piece of text is shown; all say the same without.
type style string

// The styles, as the terminal's attributes.
const (
	normal style = ""
	bold   style = "1"
	dim    style = "2"
	good   style = "32"
	warn   style = "33"
	bad    style = "31"
)

// piece is text of one style.
type piece struct {
	text  string
	style style
}

// line is pieces side by side.
type line []piece

func plain(text string) line { return line{{text: text}} }

// fit is the line as a terminal takes it, in no more than that many columns.
func (l line) fit(columns int, colour bool) string {
	var b strings.Builder
	for _, p := range l {
		if columns <= 0 {
			break
		}
		text := clip(p.text, columns)
		columns -= utf8.RuneCountInString(text)
		if colour && p.style != normal && text != "" {
			b.WriteString("\x1b[" + string(p.style) + "m" + text + "\x1b[0m")
			continue
		}
		b.WriteString(text)
	}
	return strings.TrimRight(b.String(), " ")
}

// clip cuts text, with a sign that it does.
func clip(text string, columns int) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return string([]rune(text)[:columns-1]) + "…"
}

// pad fills text up with spaces.
func pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(columns-utf8.RuneCountInString(text), 0))
}

// eighths are bars of growing height.
var eighths = []rune("▁▂▃▄▅▆▇█")

// bars draws values up to most, the last ones that fit; zero is a gap.
func bars(values []int, most, columns int) string {
	values = values[max(len(values)-columns, 0):]
	var b strings.Builder
	for _, v := range values {
		switch {
		case v <= 0:
			b.WriteRune(' ')
		case v >= most:
			b.WriteRune(eighths[len(eighths)-1])
		default:
			b.WriteRune(eighths[max(v*len(eighths)/most-1, 0)])
		}
	}
	return b.String()
}
