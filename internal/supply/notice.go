package main

import (
	"fmt"
	"io"
	"strings"
)

// writeNotice writes what is linked, and the text of every licence once.
func writeNotice(w io.Writer, s supply) error {
	var b strings.Builder
	fmt.Fprintf(&b, "The binaries of %s are linked with the modules below, each under its own\n", s.main)
	b.WriteString("licence. The source of each is at its path, in that version. Made by internal/supply;\n\"go generate ./internal/supply\" makes it anew.\n\n")
	type text struct{ heading, body string }
	var texts []text
	users := make(map[string][]string) // by body
	for _, m := range s.modules {
		var ids []string
		for _, l := range m.licences {
			if l.id != "" {
				ids = append(ids, l.id)
			}
			if users[l.text] == nil {
				texts = append(texts, text{l.file, l.text})
			}
			users[l.text] = append(users[l.text], m.Path)
		}
		fmt.Fprintf(&b, "%s: %s\n", m.name(), strings.Join(ids, ", "))
	}
	for _, t := range texts {
		fmt.Fprintf(&b, "\n%s\n%s of %s\n\n%s\n", strings.Repeat("=", 80), t.heading, strings.Join(users[t.body], ", "), t.body)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// name is the module's path and version; Go's library has neither.
func (m module) name() string {
	if m.Path == "std" {
		return "Go's standard library"
	}
	return m.Path + " " + m.Version
}
