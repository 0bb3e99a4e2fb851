package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// coveragePage maps what others describe to our symbols.
const coveragePage = "docs/COVERAGE.md"

// A row of the page is "| theirs | ours | shown by | how |". Ours is symbols in
// backticks, and shown by tests of ours; or both are a dash, and then how gives a reason,
// which begins with one of coverageReasons.
var (
	coverageRow     = regexp.MustCompile(`^\| (.*) \| (.*) \| (.*) \| (.*) \|$`)
	coverageSign    = regexp.MustCompile("`([^`]+)`")
	coverageReasons = []string{"Not applicable: ", "Not there: "}
)

// minReason is how short a reason cannot be.
const minReason = 30

// TestCoverage: every row of docs/COVERAGE.md has symbols and tests that exist, or a
// reason why there are none.
func TestCoverage(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	page, err := fs.ReadFile(root, coveragePage)
	if err != nil {
		t.Fatal(err)
	}
	symbols := symbolTable{root: root, packages: make(map[string]*packageSymbols)}
	rows, found := 0, 0
	for i, line := range strings.Split(string(page), "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| theirs |") {
			continue
		}
		rows++
		n, problem := symbols.checkRow(line)
		found += n
		if problem != "" {
			t.Errorf("%s:%d: %s", coveragePage, i+1, problem)
		}
	}
	if rows < 150 || found < 300 {
		t.Errorf("%d rows with %d symbols and tests: the test reads the page wrongly", rows, found)
	}
}

// checkRow gives how many symbols and tests of a row exist, and what is wrong with it.
func (s *symbolTable) checkRow(line string) (found int, problem string) {
	cells := coverageRow.FindStringSubmatch(line)
	if cells == nil {
		return 0, "row is not | theirs | ours | shown by | how |"
	}
	theirs, ours, shown, how := cells[1], cells[2], cells[3], cells[4]
	refused := refusedFor(how)
	signs, tests := coverageSign.FindAllStringSubmatch(ours, -1), coverageSign.FindAllStringSubmatch(shown, -1)
	switch {
	case strings.TrimSpace(theirs) == "":
		return 0, "row says of nothing where it is"
	case ours == "–" && (len(refused) < minReason || shown != "–"):
		return 0, fmt.Sprintf("%s has no symbol, and no reason that begins with one of %q and is shown by –", theirs, coverageReasons)
	case ours != "–" && (len(signs) == 0 || refused != ""):
		return 0, fmt.Sprintf("%s wants symbols, or a dash and a reason", theirs)
	case ours != "–" && len(tests) == 0:
		return 0, fmt.Sprintf("%s is shown by no test", theirs)
	}
	for _, sign := range signs {
		if err := s.exists(sign[1]); err != nil {
			return found, fmt.Sprintf("%s: %v", theirs, err)
		}
		found++
	}
	for _, test := range tests {
		if err := s.tested(test[1]); err != nil {
			return found, fmt.Sprintf("%s: %v", theirs, err)
		}
		found++
	}
	return found, ""
}

// refusedFor is the reason in how, or "".
func refusedFor(how string) string {
	for _, begins := range coverageReasons {
		if reason, ok := strings.CutPrefix(how, begins); ok {
			return reason
		}
	}
	return ""
}

// symbolTable knows the exported names of packages, read on demand.
type symbolTable struct {
	root     fs.FS
	packages map[string]*packageSymbols
}

// packageSymbols are a package's exported names: "Group", "Group.AllReduce".
type packageSymbols struct {
	names    map[string]bool
	embedded map[string][]string // types of the package that a type embeds
}

// exists looks up "dir/package.Name" or "dir/package.Type.Name".
func (s *symbolTable) exists(sign string) error {
	dir, rest := path.Split(sign)
	name, symbol, ok := strings.Cut(rest, ".")
	if !ok {
		return fmt.Errorf("%s is no symbol: want package.Name", sign)
	}
	dir += name
	p := s.packages[dir]
	if p == nil {
		var err error
		if p, err = readSymbols(s.root, dir); err != nil {
			return fmt.Errorf("%s: %w", sign, err)
		}
		s.packages[dir] = p
	}
	if !p.has(symbol) {
		return fmt.Errorf("%s does not exist: it was renamed, or is yet to be written", sign)
	}
	return nil
}

func (p *packageSymbols) has(symbol string) bool {
	if p.names[symbol] {
		return true
	}
	owner, member, ok := strings.Cut(symbol, ".")
	if !ok {
		return false
	}
	for _, inner := range p.embedded[owner] {
		if p.has(inner + "." + member) {
			return true
		}
	}
	return false
}

// readSymbols parses a package, whatever its build tags.
func readSymbols(root fs.FS, dir string) (*packageSymbols, error) {
	files, err := fs.Glob(root, dir+"/*.go")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no package %s", dir)
	}
	p := &packageSymbols{names: make(map[string]bool), embedded: make(map[string][]string)}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			p.declare(d)
		}
	}
	return p, nil
}

func (p *packageSymbols) declare(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = typeName(d.Recv.List[0].Type) + "." + name
		}
		p.names[name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					p.names[name.Name] = true
				}
			case *ast.TypeSpec:
				p.names[spec.Name.Name] = true
				p.members(spec.Name.Name, spec.Type)
			}
		}
	}
}

// members are the fields of a struct, or the methods of an interface.
func (p *packageSymbols) members(owner string, t ast.Expr) {
	var fields *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		fields = t.Fields
	case *ast.InterfaceType:
		fields = t.Methods
	default:
		return
	}
	for _, f := range fields.List {
		for _, name := range f.Names {
			p.names[owner+"."+name.Name] = true
		}
		if inner := typeName(f.Type); len(f.Names) == 0 && inner != "" {
			p.names[owner+"."+inner] = true
			p.embedded[owner] = append(p.embedded[owner], inner)
		}
	}
}

// typeName is the name of a type of this package, without its pointer and type
// parameters; "" if it is another's.
func typeName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.IndexExpr:
		return typeName(t.X)
	}
	return ""
}

// TestCoverageRows: rows that say nothing are refused.
func TestCoverageRows(t *testing.T) {
	t.Parallel()
	s := symbolTable{root: os.DirFS("../.."), packages: make(map[string]*packageSymbols)}
	for line, want := range map[string]string{
		"| `x` | `pg.Group.AllReduce` | `tensor.TestReduce` | |":                                       "",
		"| `x` | `store.Store.SetTimeout` | `store.TestHash` `store.Example` | |":                      "",
		"| `x` | – | – | Not there: nothing of ours does what the page says. |":                        "",
		"| `x` | `pg.Group.AllReduces` | `tensor.TestReduce` | |":                                      "does not exist",
		"| `x` | `tensor.Sum` | `pg.TestReduces` | |":                                                  "no test",
		"| `x` | `tensor.Sum` | `tensor.Sum` | |":                                                      "is no test",
		"| `x` | `tensor.Sum` | by hand | |":                                                           "shown by no test",
		"| `x` | `pg/none.Name` | `tensor.TestReduce` | |":                                             "no package",
		"| `x` | `pg` | `tensor.TestReduce` | |":                                                       "is no symbol",
		"| `x` | all-reduce | `tensor.TestReduce` | |":                                                 "wants symbols",
		"| `x` | – | – | soon |":                                                                       "no symbol, and no reason",
		"| `x` | – | – | Not applicable: no |":                                                         "no symbol, and no reason",
		"| `x` | – | `tensor.TestReduce` | Not applicable: nothing of ours does what the page says. |": "no symbol, and no reason",
		"| `x` | `tensor.Sum` | `tensor.TestReduce` | Not applicable: but there |":                     "wants symbols",
		"|  | `tensor.Sum` | `tensor.TestReduce` | |":                                                  "says of nothing",
		"| `x` | `tensor.Sum` | `tensor.TestReduce` |":                                                 "row is not",
	} {
		line = strings.ReplaceAll(line, "| |", "|  |")
		if _, got := s.checkRow(line); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
