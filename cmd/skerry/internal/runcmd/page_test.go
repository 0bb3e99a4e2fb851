package runcmd

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page is what users read.
const page = "../../../../docs/LAUNCH.md"

// Signs of the page.
var (
	pageCommand = regexp.MustCompile(`(?m)^(?:skerry|go run \./cmd/skerry) run (.*)$`)
	pageRow     = regexp.MustCompile("(?m)^\\| (`--[^|]*) \\| ([^|]*) \\|$")
	pageFlag    = regexp.MustCompile("`--([a-z-]+)")
)

// The commands on the page are ones that the flags take; each of torchrun's flags that is
// taken or refused has its row, and there are no other rows.
func TestPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	commands := pageCommand.FindAllStringSubmatch(string(text), -1)
	if len(commands) < 4 {
		t.Errorf("%d commands: the test reads the page wrongly", len(commands))
	}
	for _, m := range commands {
		cmd, o := Command(), &options{}
		cmd.ResetFlags()
		o.add(cmd)
		if err := cmd.ParseFlags(strings.Fields(m[1])); err != nil {
			t.Errorf("%s: %v", m[0], err)
			continue
		}
		if err := torchrunOnly(cmd); err != nil {
			t.Errorf("%s: %v", m[0], err)
		}
		if err := o.fill(cmd, []string{"true"}); err != nil { // for any program
			t.Errorf("%s: %v", m[0], err)
		}
		if err := o.cfg.Validate(); err != nil || len(cmd.Flags().Args()) == 0 {
			t.Errorf("%s: %v, command %q", m[0], err, cmd.Flags().Args())
		}
	}
	_, table, _ := strings.Cut(string(text), "\n## From torchrun\n")
	refused := make(map[string]bool) // by flags of the rows
	for _, m := range pageRow.FindAllStringSubmatch(table, -1) {
		for _, flag := range pageFlag.FindAllStringSubmatch(m[1], -1) {
			refused[flag[1]] = strings.HasPrefix(m[2], "refused")
		}
	}
	flags := Command().Flags()
	for name, is := range refused {
		if _, ours := torchrunRefused[name]; is != ours {
			t.Errorf("--%s is refused: %t, the page says %t", name, ours, is)
		}
		if flags.Lookup(name) == nil {
			t.Errorf("the page has --%s, which is no flag", name)
		}
	}
	for name := range torchrunRefused {
		if _, found := refused[name]; !found {
			t.Errorf("the page has no row with --%s", name)
		}
	}
	for theirs := range torchrunNames {
		if !slices.Contains(strings.Fields(strings.ReplaceAll(table, "`", " ")), "--"+theirs) {
			t.Errorf("the page has no row with --%s", theirs)
		}
	}
}
