package guard_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
)

// TestTokenFileKeepsItsKind: a file that is renewed with a token of which the process
// has said that it cannot work with it is not taken: the old one stays in force, and why
// is told.
func TestTokenFileKeepsItsKind(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	vision, text, operators := c.JoinToken(t, "vision"), c.JoinToken(t, "text"), c.Token
	other := errors.New("a token of another kind")
	only := func(jobs ...string) func(string) error {
		return func(of string) error {
			for _, job := range jobs {
				if of == job {
					return nil
				}
			}
			return other
		}
	}
	for name, tc := range map[string]struct {
		was, is guard.Secret
		fits    func(string) error
		taken   bool
	}{
		"a lighthouse's becomes a join token": {operators, vision, only(""), false},
		"a lighthouse's becomes another":      {operators, guard.RandomSecret(), only(""), true},
		"a replica's becomes another job's":   {vision, text, only("", "vision"), false},
		"a replica's becomes a join token":    {operators, vision, only("", "vision"), true},
		"a replica's becomes the operators'":  {vision, operators, only("", "vision"), true},
	} {
		path := filepath.Join(t.TempDir(), "token")
		write := func(s guard.Secret) {
			if err := os.WriteFile(path, s.Reveal(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(tc.was)
		g := guardtest.Open(t, guard.Options{TokenFile: path})
		guard.LookAlways(g)
		if err := g.Token.Require(only("neither")); !errors.Is(err, other) {
			t.Errorf("%s: at the start: %v, want it refused", name, err)
		}
		if err := g.Token.Require(tc.fits); err != nil {
			t.Fatalf("%s: at the start: %v", name, err)
		}
		write(tc.is)
		want := tc.was
		if tc.taken {
			want = tc.is
		}
		holder := guardtest.Open(t, guard.Options{Token: want}).Token
		if got, of := g.Token.Job(), holder.Job(); got != of {
			t.Errorf("%s: job %q in force, want %q", name, got, of)
		}
		if err := g.Token.CheckJoin(holder.ProveJoin("vision", "m", nil), "vision", "m", nil); err != nil {
			t.Errorf("%s: what should be in force: %v", name, err)
		}
		if err := g.Token.Problem(); errors.Is(err, other) == tc.taken {
			t.Errorf("%s: problem %v, taken %v", name, err, tc.taken)
		}
	}
}

// TestDamagedJoinTokens: what was a join token is no operators' one, and errors do not
// show its keys.
func TestDamagedJoinTokens(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	good := string(c.JoinToken(t, "vision").Reveal())
	keys := good[strings.LastIndexByte(good, ':')+1:]
	for name, text := range map[string]string{
		"capital":           "S" + good[1:],
		"capitals":          strings.ToUpper(good),
		"quoted":            `"` + good + `"`,
		"with its variable": "SKERRY_TOKEN=" + good,
		"of a later form":   strings.Replace(good, "join-1", "join-2", 1),
		"no job":            "skerry-join-1:" + keys,
		"empty job":         "skerry-join-1::" + keys,
		"swapped":           "skerry-join-1:" + keys + ":vision",
		"escaped badly":     "skerry-join-1:" + keys + "%",
		"and so the job":    "skerry-join-1:%zz" + keys + ":vision",
		"twice":             good + good,
	} {
		for where, o := range map[string]guard.Options{
			"given": {Token: guard.NewSecret([]byte(text))},
			"file":  {TokenFile: writeFile(t, text+"\n")},
		} {
			_, err := guard.Open(o)
			if err == nil || !strings.Contains(err.Error(), "join token") {
				t.Errorf("%s, %s: %v, want an error that says what it was", name, where, err)
			}
			if err != nil && strings.Contains(strings.ToLower(err.Error()), keys[:16]) {
				t.Errorf("%s, %s: the error shows the keys: %v", name, where, err)
			}
		}
	}
}
