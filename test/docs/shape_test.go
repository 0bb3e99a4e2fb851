package docs

import (
	"regexp"
	"strings"
	"testing"
)

// What differs from run to run in what a command shows.
var (
	shownID     = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\+\d+)?\b|\b[0-9a-f]{8}\b(-…)?`)
	shownAddr   = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+:\d+\b`)
	shownNumber = regexp.MustCompile(`\d+([.:]\d+)*`)
	heading     = regexp.MustCompile(`^[A-Z]+(  +[A-Z][A-Z ]*)+$`)
)

// shape is a line without what differs from run to run.
func shape(line string) string {
	line = shownID.ReplaceAllString(line, "ID")
	line = shownAddr.ReplaceAllString(line, "ADDR")
	line = shownNumber.ReplaceAllString(line, "N")
	return strings.Join(strings.Fields(line), " ")
}

// compare finds what a page shows and a command does not say: each line's shape must be among those
// of the output. Of what varies only headings are compared. It returns "" if all is there.
func compare(shown []string, said string, varies bool) string {
	there := make(map[string]bool)
	for l := range strings.Lines(said) {
		there[shape(l)] = true
	}
	for _, l := range shown {
		if s := shape(l); s != "" && s != "…" && !there[s] && (!varies || heading.MatchString(strings.TrimSpace(l))) {
			return l
		}
	}
	return ""
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const said = "cluster 0a1b2c3d-0000-1111-2222-333344445555, term 7\nID        ADDRESS          ROLE\n7a525e6b  127.0.0.1:29510  voter\n"
	cases := []struct {
		shown  string
		varies bool
		want   string
	}{
		{"cluster da5524d6-97a8-4a62-8ba6-c204c4552062, term 2", false, ""},
		{"ID  ADDRESS  ROLE", true, ""},
		{"ID  ADDRESS  ROLE  LOG", true, "ID  ADDRESS  ROLE  LOG"},
		{"de3a30c1  127.0.0.1:29520  voter", false, ""},
		{"de3a30c1  127.0.0.1:29520  leader", false, "de3a30c1  127.0.0.1:29520  leader"},
		{"de3a30c1  127.0.0.1:29520  leader", true, ""},
		{"…", false, ""},
	}
	for _, c := range cases {
		if got := compare([]string{c.shown}, said, c.varies); got != c.want {
			t.Errorf("compare %q: %q, want %q", c.shown, got, c.want)
		}
	}
}
