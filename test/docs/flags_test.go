package docs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A shim stands in for a program of ours while the flags of a line are looked at.
const shim = `#!/bin/bash
echo called >> %[1]s
answer=$(%[2]s "$@" --help 2>&1 >/dev/null) || echo "$answer" >> %[1]s.refused
`

// flagsOf has our programs read their flags in a line, whatever else is in it, and returns how many
// were called: bash takes the line apart, and finds no programs but shims. A word "…" stands
// for flags that were shown before.
func flagsOf(t *testing.T, line string) (called int, err error) {
	t.Helper()
	dir := t.TempDir()
	said := filepath.Join(dir, "said")
	for _, p := range programs {
		script := fmt.Sprintf(shim, said, builds.Path(t, p))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(p)), []byte(script), 0o700); err != nil {
			return 0, err
		}
	}
	// What the launcher is to start has to be there.
	if err := os.WriteFile(filepath.Join(dir, "python"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		return 0, err
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("pages are written for bash: %v", err)
	}
	line = strings.NewReplacer(" …", "", "go run ./cmd/", "", "go run ./examples/digits/", "", "go run ./examples/", "").Replace(line)
	cmd := exec.CommandContext(t.Context(), bash, "-c", line)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + dir}
	_ = cmd.Run() // the line itself is not run; its status is of what is not found
	if refused, err := os.ReadFile(said + ".refused"); err == nil {
		return 0, errors.New(strings.TrimSpace(string(refused)))
	}
	text, err := os.ReadFile(said)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	return strings.Count(string(text), "called"), nil
}

func TestFlagsOf(t *testing.T) {
	t.Parallel()
	cases := []struct {
		line   string
		called int
		want   string
	}{
		{"kubectl apply -k nowhere", 0, ""},
		{"(umask 077; skerry token --job vision --token-file /etc/skerry/token | cat)", 1, ""},
		{"lighthouse … --adopt listen", 1, ""},
		{"SKERRY_OPEN=1 go run ./examples/digits/trainer -index 0 -replicas 2", 1, ""},
		{"sudo systemctl x; skerry status --wach", 0, "unknown flag --wach"},
		{"skerry statsu", 0, `unknown command "statsu"`},
		{"trainer -lighthuose a:1", 0, "unknown flag --lighthuose of trainer, did you mean --lighthouse?"},
	}
	for _, c := range cases {
		called, err := flagsOf(t, c.line)
		switch {
		case c.want == "" && (err != nil || called != c.called):
			t.Errorf("%s: %d calls, %v, want %d", c.line, called, err, c.called)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.line, err, c.want)
		}
	}
}

// What stands in backticks within a page's text, and is a command of ours, or a target of make.
var (
	inline     = regexp.MustCompile("`([^`]+)`")
	inlineOurs = regexp.MustCompile(`^(go run \./(cmd|examples/digits)/|skerry [a-z]|(lighthouse|trainer) -|lighthouse (ca|leave|members|recover|remove|transfer-leader)\b)`)
	inlineMake = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*make ([a-z-]+)`)
	written    = strings.NewReplacer("[", "", "]", "", " …", "", " N", " 1") // how a page writes what may vary
)

// Commands in the text have flags that there are, and make has the targets.
func TestCommandsInText(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs each command's help")
	}
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	checked := make(map[string]bool)
	for _, page := range pages(t) {
		_, prose := blocks(t, page)
		for i, l := range prose {
			for _, m := range inline.FindAllStringSubmatch(l, -1) {
				code := m[1]
				if checked[code] {
					continue
				}
				if m := inlineMake.FindStringSubmatch(code); m != nil {
					checked[code] = true
					if !strings.Contains(string(makefile), "\n"+m[1]+":") {
						t.Errorf("%s:%d: `%s`: make has no such target", page, i+1, code)
					}
				}
				if !inlineOurs.MatchString(code) {
					continue
				}
				checked[code] = true
				line := written.Replace(code)
				called, err := flagsOf(t, line)
				if last := line[strings.LastIndexByte(line, ' ')+1:]; err != nil && strings.HasPrefix(last, "-") {
					called, err = flagsOf(t, line+" 1") // the flag is named without its value
				}
				if err != nil || called == 0 {
					t.Errorf("%s:%d: `%s`: %v, %d programs called", page, i+1, code, err, called)
				}
			}
		}
	}
	if len(checked) < 50 {
		t.Errorf("%d commands in the text of all pages: the test reads them wrongly", len(checked))
	}
}
