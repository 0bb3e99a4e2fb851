package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
)

// TestTokenCommand: what it prints is a file that replicas can be given; what it
// cannot do it says.
func TestTokenCommand(t *testing.T) {
	t.Setenv(guard.EnvToken, "")
	t.Setenv(guard.EnvTokenFile, "")
	c := guardtest.New(t)
	operators := filepath.Join(c.Dir, "token")
	var out, errs bytes.Buffer
	if code := run([]string{"token", "--job", "vision", "--token-file", operators}, &out, &errs); code != 0 {
		t.Fatalf("status %d: %s", code, &errs)
	}
	if want := string(c.JoinToken(t, "vision").Reveal()) + "\n"; out.String() != want {
		t.Errorf("printed %q, want %q", &out, want)
	}
	path := filepath.Join(t.TempDir(), "vision.token")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := guardtest.Open(t, guard.Options{TokenFile: path}).Token.Job(); got != "vision" {
		t.Errorf("the file is of job %q, want vision", got)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no token":   {nil, "no operators' token: name its file by --token-file"},
		"a join one": {[]string{"--token-file", path}, `is a join token, of job "vision"`},
		"a bad job":  {[]string{"--token-file", operators, "--job", "a b"}, `job = "a b", want at most 128 letters`},
		"a long job": {[]string{"--token-file", operators, "--job", strings.Repeat("j", 129)}, "want at most 128 letters"},
	} {
		errs.Reset()
		if code := run(append([]string{"token"}, tc.args...), &out, &errs); code == 0 || !strings.Contains(errs.String(), tc.want) {
			t.Errorf("%s: status %d, %q; want a failure and %q", name, code, &errs, tc.want)
		}
	}
}
