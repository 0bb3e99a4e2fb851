package tidy

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
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
			target, _, _ := strings.Cut(link[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if _, err := fs.Stat(root, path.Join(path.Dir(name), target)); err != nil {
				t.Errorf("%s links to %s, which is not there: correct the link or add the file", name, link[1])
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
