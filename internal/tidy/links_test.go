package tidy

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// pageLink is a link of a Markdown page: [text](target).
var pageLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Links of pages to files of the repository lead somewhere.
func TestPageLinks(t *testing.T) {
	t.Parallel()
	root, pages := os.DirFS("../.."), 0
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && skipDir(d.Name()):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		pages++
		for _, link := range pageLink.FindAllStringSubmatch(string(text), -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := path.Join(path.Dir(name), target)
			if target == "" {
				file = name
			}
			if _, err := fs.Stat(root, file); err != nil {
				t.Errorf("%s links to %s, which is not there: correct the link or add the file", name, link[1])
			} else if anchor != "" && path.Ext(file) == ".md" && !slices.Contains(anchors(t, root, file), anchor) {
				t.Errorf("%s links to %s, and that page has no such heading", name, link[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages == 0 {
		t.Error("no page was found: the test looks in the wrong place")
	}
}

// anchors are what a page's headings can be linked by, as GitHub makes them: small letters,
// hyphens for blanks, and no other marks.
func anchors(t *testing.T, root fs.FS, page string) []string {
	text, err := fs.ReadFile(root, page)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	fenced := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if fenced || !ok || line[0] != '#' {
			continue
		}
		found = append(found, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title)))
	}
	return found
}
