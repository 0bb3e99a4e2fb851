package tidy

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// ban is a call that has no place somewhere.
type ban struct {
	rule  string
	pkg   string   // import path
	names []string // none: the import itself
	here  func(f *file, fn string) bool
	why   string // what is wrong, and the fix
}

// endsProcess: programs, and the code that is a program's life, may.
func endsProcess(f *file, _ string) bool {
	return !f.isMain() && !f.test && !f.under("train/spawn", "launch/internal/keeper")
}

func library(f *file, _ string) bool { return !f.isMain() && !f.test && !f.under("cmd", "test") }

func anywhere(*file, string) bool { return true }

var bans = []ban{
	{"sleep", "time", []string{"Sleep"},
		func(f *file, _ string) bool { return f.test && !f.under("test") },
		"time.Sleep in a test; wait for a condition with a deadline, or use testing/synctest"},
	{"todo-context", "context", []string{"TODO"}, anywhere,
		"context.TODO; take a ctx from the caller"},
	{"exit", "os", []string{"Exit"}, endsProcess,
		"os.Exit in a library; return an error"},
	{"exit", "log", []string{"Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln"},
		func(f *file, _ string) bool { return !f.test },
		"log.Fatal; return an error, and let main print it"},
	{"print", "fmt", []string{"Print", "Printf", "Println"}, library,
		"fmt.Print in a library; take an io.Writer, or log"},
	{"global-logger", "github.com/rs/zerolog/log", nil, anywhere,
		"zerolog's global logger; take a zerolog.Logger as a field of Config"},
	{"global-logger", "github.com/rs/zerolog", []string{"SetGlobalLevel"}, library,
		"zerolog.SetGlobalLevel in a library is the whole process's; use Logger.Level"},
	{"logger", "github.com/rs/zerolog", []string{"New"},
		func(f *file, _ string) bool {
			return !f.test && !f.under("internal/logline", "lighthouse/lighthousetest")
		},
		"a logger whose lines have no times, or times in seconds; make it by internal/logline"},
	{"environment", "os", []string{"Getenv", "LookupEnv"},
		func(f *file, fn string) bool {
			return library(f, fn) && !f.under("train/spawn", "examples") &&
				!strings.HasSuffix(fn, "FromEnv") && !strings.HasSuffix(f.path, "/env.go")
		},
		"environment read in a library; take it as a field of Config, or in a function named FromEnv (its helpers in env.go)"},
}

// checkBanned looks for calls that have no place where they are.
func (t *tree) checkBanned() []Problem {
	var problems []Problem
	for _, f := range t.files {
		if f.generated {
			continue
		}
		for _, s := range f.ast.Imports {
			for _, b := range bans {
				if b.names == nil && importPath(s) == b.pkg && b.here(f, "") {
					problems = append(problems, t.problem(b.rule, f, s, "%s", b.why))
				}
			}
		}
		for _, d := range f.ast.Decls {
			problems = append(problems, t.bannedIn(f, d)...)
		}
	}
	return problems
}

func (t *tree) bannedIn(f *file, d ast.Decl) []Problem {
	var problems []Problem
	fn := ""
	if decl, ok := d.(*ast.FuncDecl); ok {
		fn = decl.Name.Name
		if fn == "init" && decl.Recv == nil && !f.under("nccl") {
			problems = append(problems, t.problem("init", f, decl,
				"func init; do it in New, or where main can see it"))
		}
	}
	ast.Inspect(d, func(n ast.Node) bool {
		for _, b := range bans {
			if b.names != nil && f.selects(n, b.pkg, b.names...) && b.here(f, fn) {
				problems = append(problems, t.problem(b.rule, f, n, "%s", b.why))
			}
		}
		if call, ok := n.(*ast.CallExpr); ok {
			if what := badError(f, call); what != "" {
				problems = append(problems, t.problem("error-text", f, call, "%s", what))
			}
			if emptySkip(f, call) {
				problems = append(problems, t.problem("skip", f, call, "a test skipped without a reason; say it to Skip"))
			}
		}
		return true
	})
	return problems
}

// field is how Validate begins a problem: "JoinTimeout = 0s, want …".
var field = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*(\.[A-Z][A-Za-z0-9]*)* = `)

// badError says what is wrong with the text of a new error, or nothing.
func badError(f *file, call *ast.CallExpr) string {
	if len(call.Args) == 0 || !f.selects(call.Fun, "errors", "New") && !f.selects(call.Fun, "fmt", "Errorf") {
		return ""
	}
	lit, ok := call.Args[0].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	for _, noise := range []string{"failed to", "error while", "unable to"} {
		if strings.Contains(strings.ToLower(text), noise) {
			return "an error that says \"" + noise + "\"; say what we were doing: \"read file: %w\""
		}
	}
	first := []rune(text + "a b")
	switch {
	case unicode.IsUpper(first[0]) && unicode.IsLower(first[1]) && !field.MatchString(text) && !knownName(text):
		return "an error that begins with a capital; errors are parts of sentences"
	case strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "…"):
		return "an error that ends with a period; errors are parts of sentences"
	}
	return ""
}

// knownName: the error begins with an exported name or a proper name.
func knownName(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	word = strings.TrimRight(word, ":,")
	for _, name := range []string{"PyTorch", "Gloo", "Python", "Linux"} {
		if strings.HasPrefix(word, name) {
			return true
		}
	}
	// CamelCase, a call or a qualified name is a name.
	rest := strings.TrimLeft(word[1:], "abcdefghijklmnopqrstuvwxyz")
	return rest != ""
}

func emptySkip(f *file, call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !f.test || len(call.Args) != 0 {
		return false
	}
	return sel.Sel.Name == "SkipNow" || sel.Sel.Name == "Skip"
}

var (
	todo   = regexp.MustCompile(`\bTODO\b(\(#[0-9]+\))?`)
	fixme  = regexp.MustCompile(`\b(FIXME|XXX)\b`)
	tidied = "internal/tidy" // its own comments and tests speak of these
)

// checkComments wants an issue behind every TODO.
func (t *tree) checkComments() []Problem {
	var problems []Problem
	for _, f := range t.files {
		if f.generated || f.under(tidied) {
			continue
		}
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				m := todo.FindStringSubmatch(c.Text)
				if m != nil && m[1] == "" {
					problems = append(problems, t.problem("todo", f, c, "a TODO of nobody; write TODO(#issue), or do it"))
				}
				if fixme.MatchString(c.Text) {
					problems = append(problems, t.problem("todo", f, c, "a FIXME does not land; mend it, or file an issue and write TODO(#issue)"))
				}
			}
		}
	}
	return problems
}
