package docs

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// rule is what becomes of a command that is not simply run to its end, with status 0.
type rule struct {
	is string // the command, as the page has it, without its comment

	not    string   // why it is not run; its flags are looked at, in the place of that
	in     string   // the terminal in which it is typed; empty: the page's first
	as     string   // what is typed in its place
	fresh  bool     // all that was started before is ended first
	first  []rule   // what the reader has typed before, or another has, elsewhere
	then   []rule   // what the reader types on other hosts
	starts string   // it goes on; the next command is typed when it has written this
	until  string   // it goes on; it is interrupted when it has written this
	says   []string // what it writes besides
	varies bool     // of what the page shows of its output only headings are compared
	needs  string   // a program that not every machine has
}

// A command is what a reader types, and what the page shows of the answer.
type command struct {
	block
	line  int // where it begins
	text  string
	shown []string
}

// comment is what a page has behind a command, for its reader.
var comment = regexp.MustCompile(`\s+# .*$`)

// commands are those of a block of sh or console.
func commands(b block) (all []command) {
	goesOn := false
	for i, l := range b.lines {
		prompt := strings.HasPrefix(l, "$ ")
		switch {
		case b.lang == "console" && !prompt && !goesOn:
			if len(all) > 0 {
				all[len(all)-1].shown = append(all[len(all)-1].shown, l)
			}
			continue
		case strings.TrimSpace(l) == "" || strings.HasPrefix(l, "#"):
			continue
		}
		l = comment.ReplaceAllString(strings.TrimPrefix(l, "$ "), "")
		if goesOn {
			last := &all[len(all)-1]
			last.text = last.text + " " + strings.TrimSpace(l)
		} else {
			all = append(all, command{block: b, line: b.line + i, text: l})
		}
		last := &all[len(all)-1]
		last.text, goesOn = strings.CutSuffix(last.text, `\`)
		last.text = strings.TrimSpace(last.text)
	}
	return all
}

// Every command of every page is run, or has a reason in its page's table.
func TestCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs a lighthouse and trainers for each page")
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("pages are written for bash, which is not here")
	}
	for _, page := range pages(t) {
		var all []command
		fenced, _ := blocks(t, page)
		for _, b := range fenced {
			if b.lang == "sh" || b.lang == "console" {
				all = append(all, commands(b)...)
			}
		}
		rules := tables[page]
		if len(all) == 0 && len(rules) == 0 {
			continue
		}
		t.Run(titled(page), func(t *testing.T) {
			t.Parallel()
			r := reader{place: newPlace(t), rules: rules, used: make([]bool, len(rules))}
			for _, c := range all {
				r.read(c)
			}
			for i, used := range r.used {
				if !used {
					t.Errorf("%s has no command %q any more: take its entry out of the table", page, rules[i].is)
				}
			}
		})
	}
	for page := range tables {
		if !slices.Contains(pages(t), page) {
			t.Errorf("there is a table of %s, and no such page", page)
		}
	}
}

// titled is a page's name among the tests: README, python-README, OPERATIONS.
func titled(page string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(page, "docs/"), ".md"), "/", "-")
}

// reader types a page's commands.
type reader struct {
	*place
	rules []rule
	used  []bool
}

// ruleOf is a command's entry: if it is on the page several times, the first that no other has.
func (r *reader) ruleOf(c command) rule {
	last := -1
	for i := range r.rules {
		if r.rules[i].is != c.text {
			continue
		}
		if last = i; !r.used[i] {
			break
		}
	}
	if last < 0 {
		return rule{is: c.text}
	}
	r.used[last] = true
	return r.rules[last]
}

func (r *reader) read(c command) {
	r.t.Helper()
	do := r.ruleOf(c)
	if do.not != "" {
		if _, err := flagsOf(r.t, c.text); err != nil {
			r.t.Errorf("%s:%d: %s\n%v", c.page, c.line, c.text, err)
		}
		return
	}
	said, ok := r.do(do)
	if !ok {
		r.t.Fatalf("%s:%d: this command did not do what the page says; mend it, or the page, or give it an entry in pages_test.go: %s", c.page, c.line, c.text)
	}
	if problem := compare(c.shown, said, do.varies); problem != "" {
		r.t.Errorf("%s:%d: %s shows other things than the page: %s\n%s", c.page, c.line, c.text, problem, said)
	}
}

// do types a command, and returns all that it wrote, and whether that is what it should have.
func (r *reader) do(do rule) (said string, ok bool) {
	r.t.Helper()
	if do.needs != "" {
		if _, err := exec.LookPath(do.needs); err != nil {
			r.t.Logf("not run, for want of %s: %s", do.needs, do.is)
			return "", true
		}
	}
	if do.fresh {
		r.stop()
	}
	for _, f := range do.first {
		if said, ok := r.do(f); !ok {
			return said, false
		}
	}
	typed := do.is
	if do.as != "" {
		typed = do.as
	}
	terminal := "first"
	if do.in != "" {
		terminal = do.in
	}
	p := r.start(terminal, typed, do.starts+do.until != "")
	switch {
	case do.starts != "":
		p.Says(do.starts, 0)
	case do.until != "":
		p.Says(do.until, 0)
		r.signal(p, syscall.SIGINT)
		_ = p.Exits() // of a shell that was interrupted
	default:
		if status := p.Exits(); status != 0 {
			r.t.Errorf("status %d", status)
			return p.String(), false
		}
	}
	for _, s := range do.says {
		if !strings.Contains(p.String(), s) {
			r.t.Errorf("want %q in\n%s", s, p)
			return p.String(), false
		}
	}
	for _, f := range do.then {
		if said, ok := r.do(f); !ok {
			return said, false
		}
	}
	return p.String(), true
}
