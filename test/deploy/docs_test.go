package deploy

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// documented checks docs/OPERATIONS.md: its tables name the series that there are, and no
// other, and every alert.
func documented(t *testing.T, all []sample) {
	t.Helper()
	b, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `(skerry_\\w+|Skerry\\w+)` \\|").FindAllStringSubmatch(string(b), -1) {
		named[m[1]] = true
	}
	there := make(map[string]bool)
	for _, x := range all {
		if name := x.of[""]; strings.HasPrefix(name, "skerry_") {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, part)
			}
			there[name] = true
		}
	}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				there[r.Alert] = true
			}
		}
	}
	for name := range there {
		if !named[name] {
			t.Errorf("docs/OPERATIONS.md has no line for %s", name)
		}
	}
	for name := range named {
		if !there[name] {
			t.Errorf("docs/OPERATIONS.md has a line for %s, which is not there", name)
		}
	}
}
