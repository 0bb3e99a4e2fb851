package connect

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Only what means itself in every shell is completed: names come from replicas, and end on
// a user's command line.
func TestOffered(t *testing.T) {
	t.Parallel()
	safe := []string{"a:00000000", "node-3.rack_2/0:1f", "user@host:1", "v1.2+git,x:1", "_x"}
	hostile := []string{
		"$(reboot):1", "`id`", "a;reboot", "a|b", "a&b", "a>b", "a<b", "a b", "a\u00a0b", "a\nb", "'a", "a\"b", `a\b`, "~root", "=ls", "a=b",
		"*", "a?", "[a]", "{a,b}", "(a)", "!!", "#a", "^a", "%1", "--yes", "-y", ".", "", "a\x1b[2J", "a\u202eb", "_activeHelp_ a", "\xff",
	}
	var names, want []string
	for _, s := range safe {
		names, want = append(names, s+"\tlive", s+"\tlive"), append(want, s+"\tlive")
	}
	for _, s := range hostile {
		names = append(names, s, s+"\tlive", s+":2\tlost")
	}
	names, want = append(names, "told\t$(reboot)", "bare"), append(want, "told", "bare")
	slices.Sort(want)
	if got := offered(names); !slices.Equal(got, want) {
		t.Errorf("offered %q, want %q", got, want)
	}
}

// What is offered reaches a command as it is, typed into a shell that is there.
func TestOfferedInAShell(t *testing.T) {
	t.Parallel()
	const signs = "a-.:/@+,_b"
	if got := offered([]string{signs}); len(got) != 1 {
		t.Fatalf("%q is not offered", signs)
	}
	tried := 0
	for _, shell := range []string{"sh", "bash", "zsh", "fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		tried++
		cmd := exec.CommandContext(t.Context(), path, "-c", "printf %s "+signs)
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != signs {
			t.Errorf("%s makes %q of %q: %v", shell, out, signs, err)
		}
	}
	if tried == 0 {
		t.Skip("no shell is here")
	}
}
