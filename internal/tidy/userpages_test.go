package tidy

import (
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Users' pages name our symbols in backticks, as dir/package.Name.
const (
	trainingPage = "docs/TRAINING.md"
	comingPage   = "docs/COMING.md"
)

var symbolSign = regexp.MustCompile(`^[a-z0-9]+(/[a-z0-9]+)*(\.[A-Z][A-Za-z0-9]*)+$`)

// trainersErrors are the packages whose errors a trainer meets.
var trainersErrors = []string{
	"manager", "pg", "pg/tcp", "pg/baby", "dist", "dist/object", "store", "tensor", "nccl", "checkpoint", "checkpoint/safetensors", "checkpoint/durable",
	"train/ddp", "train/localsgd", "train/paramserver", "train/place", "train/spawn", "quorum", "lighthouse", "lighthouse/cluster",
}

// TestUsersPages: the symbols that users' pages name exist, and no error of a trainer is
// missing.
func TestUsersPages(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	symbols := symbolTable{root: root, packages: make(map[string]*packageSymbols)}
	named, explained := make(map[string]bool), make(map[string]bool)
	for _, page := range []string{trainingPage, comingPage, troublesPage} {
		text, err := fs.ReadFile(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			for _, sign := range coverageSign.FindAllStringSubmatch(line, -1) {
				if !symbolSign.MatchString(sign[1]) {
					continue
				}
				named[sign[1]] = true
				explained[sign[1]] = explained[sign[1]] || page == troublesPage
				if err := symbols.exists(sign[1]); err != nil {
					t.Errorf("%s: %v", page, err)
				}
			}
		}
	}
	if len(named) < 100 {
		t.Errorf("%d symbols on the pages: the test reads them wrongly", len(named))
	}
	all, _, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(all.errors(trainersErrors))) {
		if !explained[name] {
			t.Errorf("%s does not say what %s means, and what to do", troublesPage, name)
		}
	}
}

// errors are the exported variables Err… and types …Error of packages.
func (t *tree) errors(packages []string) map[string]bool {
	found := make(map[string]bool)
	for _, f := range t.files {
		if f.test || !slices.Contains(packages, f.dir) {
			continue
		}
		for _, d := range f.ast.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						if gen.Tok == token.VAR && strings.HasPrefix(n.Name, "Err") {
							found[f.dir+"."+n.Name] = true
						}
					}
				case *ast.TypeSpec:
					if spec.Name.IsExported() && strings.HasSuffix(spec.Name.Name, "Error") {
						found[f.dir+"."+spec.Name.Name] = true
					}
				}
			}
		}
	}
	return found
}
