package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a fenced block of a page.
type block struct {
	page  string // its file, from the root
	line  int    // of its first line
	lang  string
	lines []string // without the fence's indentation
}

func (b block) text() string { return strings.Join(b.lines, "\n") + "\n" }

// pages are the files that are read.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		found[i] = filepath.ToSlash(strings.TrimPrefix(found[i], root+string(filepath.Separator)))
	}
	return append([]string{"README.md", "CONTRIBUTING.md", "python/README.md"}, found...)
}

func readPage(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// blocks are a page's fenced blocks, in order; prose has its other lines, with the fenced ones empty.
func blocks(t *testing.T, page string) (fenced []block, prose []string) {
	t.Helper()
	var in *block
	var indent string
	for i, l := range readPage(t, page) {
		bare := strings.TrimLeft(l, " ")
		switch fence := strings.HasPrefix(bare, "```"); {
		case fence && in == nil:
			indent = l[:len(l)-len(bare)]
			in = &block{page: page, line: i + 2, lang: strings.TrimSpace(bare[3:])}
		case fence:
			fenced = append(fenced, *in)
			in = nil
		case in != nil:
			in.lines = append(in.lines, strings.TrimPrefix(l, indent))
		default:
			prose = append(prose, l)
			continue
		}
		prose = append(prose, "")
	}
	if in != nil {
		t.Fatalf("%s:%d: the block has no end", page, in.line)
	}
	return fenced, prose
}

// languages are those that the tests of this package know what to do with.
var languages = []string{"sh", "console", "text", "go", "python", "json"}

// programSign is how a line begins that a reader would type.
var programSign = regexp.MustCompile(`^\s*(\$ |[A-Z_]+=\S+ |export |curl |kubectl |make |go (run|test|build) |python3? |\(?(skerry|lighthouse|trainer)( -|$))`)

// Every block says what it is, nothing that a reader would type hides among drawings, and JSON is
// JSON.
func TestBlocks(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, page := range pages(t) {
		fenced, prose := blocks(t, page)
		for _, b := range fenced {
			seen++
			switch {
			case !slices.Contains(languages, b.lang):
				t.Errorf("%s:%d: a block of %q, want a language behind its fence: %s (see test/docs/doc.go)", b.page, b.line-1, b.lang, strings.Join(languages, ", "))
			case b.lang == "json" && !json.Valid([]byte(b.text())):
				t.Errorf("%s:%d: this is no JSON", b.page, b.line)
			case b.lang == "text":
				for i, l := range b.lines {
					if programSign.MatchString(l) {
						t.Errorf("%s:%d: a command in a block of text: %q; want it in one of sh or console", b.page, b.line+i, l)
					}
				}
			}
		}
		for i, l := range prose {
			if strings.HasPrefix(l, "    ") && (i == 0 || prose[i-1] == "") {
				t.Errorf("%s:%d: a block by indentation: %q; want it fenced, with a language", page, i+1, l)
			}
		}
	}
	if seen < 40 {
		t.Errorf("%d blocks on all pages: the test reads them wrongly", seen)
	}
}
