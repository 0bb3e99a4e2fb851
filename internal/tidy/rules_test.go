package tidy

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// page has all invariants, and namesAll is a test that names them.
var page, namesAll = func() (string, string) {
	var page, names strings.Builder
	for i := 1; i <= 10; i++ {
		fmt.Fprintf(&page, "| **Q%d** | a rule |\n", i)
		fmt.Fprintf(&names, "// Q%d\n", i)
	}
	for i := 1; i <= 7; i++ {
		fmt.Fprintf(&page, "| **C%d** | a rule |\n", i)
		fmt.Fprintf(&names, "// C%d\n", i)
	}
	return page.String(), names.String()
}()

// repo is a small repository that breaks no rule, and files on top.
func repo(files map[string]string) fstest.MapFS {
	fs := fstest.MapFS{
		"docs/PROTOCOL.md":      {Data: []byte(page)},
		"docs/COVERAGE.md":      {Data: []byte("| `pg.F` `pg.T` `pg.ConfigFromEnv` |\n")}, // what samples of other rules declare
		"quorum/doc.go":         {Data: []byte("// Package quorum is.\npackage quorum\n")},
		"quorum/quorum_test.go": {Data: []byte("package quorum\n" + namesAll)},
	}
	for path, src := range files {
		fs[path] = &fstest.MapFile{Data: []byte(src)}
	}
	return fs
}

// doc begins a file of a package that has its comment.
func doc(pkg string) string { return "// Package " + pkg + " is.\npackage " + pkg + "\n" }

// sample is a repository that breaks a rule, or only looks like it.
type sample struct {
	name  string
	files map[string]string
	want  []string // rule and a piece of the message; none: no problem
}

// Each rule finds what it is for, and leaves alone what looks like it.
func check(t *testing.T, samples []sample) {
	t.Helper()
	for _, c := range samples {
		t.Run(c.name, func(t *testing.T) { expect(t, repo(c.files), "", c.want) })
	}
}

func TestImportsAndPurity(t *testing.T) {
	check(t, []sample{
		{"a clean repository", nil, nil},
		{"syntax", map[string]string{"pg/a.go": "package pg {"}, []string{"parse: does not parse"}},

		{"an import that the table has not", map[string]string{
			"manager/a.go": doc("manager") + `import _ "github.com/skerry-ft/skerry/lighthouse"`,
		}, []string{"imports: manager must not import lighthouse"}},
		{"upward", map[string]string{
			"pg/a.go": doc("pg") + `import _ "github.com/skerry-ft/skerry/pg/tcp"`,
		}, []string{"imports: pg must not import pg/tcp"}},
		{"the checkers see nothing of the simulator", map[string]string{
			"internal/sim/checker/a.go": doc("checker") + `import _ "github.com/skerry-ft/skerry/internal/sim"`,
		}, []string{"imports: internal/sim/checker must not import internal/sim"}},
		{"what a server keeps sees nothing of the cluster", map[string]string{
			"lighthouse/cluster/internal/datadir/a.go": doc("datadir") + `import _ "github.com/skerry-ft/skerry/lighthouse/cluster"`,
			"lighthouse/cluster/internal/disk/a.go":    doc("disk") + `import _ "github.com/skerry-ft/skerry/internal/wire"`,
		}, []string{
			"imports: lighthouse/cluster/internal/datadir must not import lighthouse/cluster",
			"imports: lighthouse/cluster/internal/disk must not import internal/wire",
		}},
		{"tests must not either", map[string]string{
			"pg/a.go":      doc("pg"),
			"pg/a_test.go": "package pg\n" + `import _ "github.com/skerry-ft/skerry/manager"`,
		}, []string{"imports: pg must not import manager"}},
		{"a package of nobody", map[string]string{"util/a.go": doc("util")}, []string{"imports: package util is not in the table"}},
		{"the root", map[string]string{"a.go": doc("skerry")}, []string{"imports: package . is not in the table"}},
		{"edges of the table", map[string]string{
			"manager/a.go":      doc("manager") + `import _ "github.com/skerry-ft/skerry/internal/wire/skerrypb"`,
			"manager/a_test.go": "package manager\n" + `import _ "github.com/skerry-ft/skerry/pg/pgtest"`,
			"train/ddp/a.go":    doc("ddp") + `import _ "github.com/skerry-ft/skerry/internal/logkey"`,
		}, nil},

		{"an impure quorum", map[string]string{
			"quorum/a.go": "package quorum\n" + `import ("sync"; "time"; _ "github.com/skerry-ft/skerry/internal/logkey")
				var mu sync.Mutex
				func f(c chan int) { go f(c); c <- 1; <-c; select {}; _ = time.Now(); _ = time.Since(time.Time{}) }`,
		}, []string{
			"purity: must not import sync", "purity: must not import github.com/skerry-ft/skerry/internal/logkey",
			"imports: quorum must not import internal/logkey", "purity: a channel", "purity: a go statement",
			"purity: a channel send", "purity: a channel receive", "purity: a select", "purity: time.Now",
			"purity: time.Since", "goleak: package quorum",
		}},
		{"an impure package below it", map[string]string{
			"quorum/shell/a.go": doc("shell") + `import (_ "github.com/skerry-ft/skerry/quorum"; "time"); var now = time.Now()`,
		}, []string{"purity: time.Now"}},
		{"a pure quorum, and its tests", map[string]string{
			"quorum/a.go":      "package quorum\n" + `import "time"; func f(t time.Time) time.Time { return t.Add(time.Second) }`,
			"quorum/a_test.go": "package quorum\n" + `import ("sync"; "time"); var mu sync.Mutex; var now = time.Now()`,
		}, nil},
	})
}

// The table has no edge that no file uses.
func TestEdges(t *testing.T) {
	imports := func(paths ...string) string {
		return `import (_ "github.com/skerry-ft/skerry/` + strings.Join(paths, `"; _ "github.com/skerry-ft/skerry/`) + `")`
	}
	table := func(ordinary, tests string) map[string]string {
		return map[string]string{
			"internal/tidy/table.go": doc("tidy") + "var mayImport = map[string][]string{" + ordinary + "}\n" +
				"var testsMayImport = map[string][]string{" + tests + "}",
			"manager/a.go":         doc("manager") + imports("quorum", "internal/wire/skerrypb", "internal/logkey"),
			"manager/a_test.go":    "package manager\n" + imports("store", "pg/tcp", "tensor", "pg/dummy", "pg/pgtest"),
			"tensor/a.go":          doc("tensor"),
			"test/chaos/a_test.go": "package chaos\n" + imports("store"),
		}
	}
	check(t, []sample{
		{"edges in use", table(`"quorum": {}, "manager": {"quorum", "internal/wire/..."}, "test": {"store/..."}`,
			`"manager": {"pg/tcp", "tensor"}`), nil},
		{"edges that nothing uses", table(`"manager": {"quorum", "checkpoint", "internal/guard/..."}, "tensor": {"quorum"}`, ``), []string{
			"imports: manager does not import checkpoint; take the edge out",
			"imports: manager does not import internal/guard/...; take the edge out",
			"imports: tensor does not import quorum",
		}},
		{"an edge of tests", table(`"manager": {"store/..."}, "test": {"store", "pg/..."}`, ``), []string{
			"imports: of manager only tests import store/...; move the edge to testsMayImport",
			"imports: test does not import pg/...",
		}},
		{"edges that tests do not need", table(``, `"manager": {"store", "pg/dummy", "pg/pgtest", "dist"}, "tensor": {"pg"}`), []string{
			"imports: tests of manager do not import store, or may without", "imports: tests of manager do not import pg/dummy",
			"imports: tests of manager do not import pg/pgtest", "imports: tests of manager do not import dist",
			"imports: tests of tensor do not import pg",
		}},
		{"rows without a package", table(`"nccl": {}, "store": {"internal/burst"}`, ``), []string{
			"imports: no package is at or below nccl; take the row out", "imports: no package is at or below store",
		}},
	})
}

// What follows from a vote, a tally, a fact or a settlement is said in quorum only.
func TestVerdicts(t *testing.T) {
	const imports = `import q "github.com/skerry-ft/skerry/quorum"` + "\n"
	const use = "func f(v q.Vote, o q.TallyOutcome, k q.FactKind, s q.Outcome) "
	check(t, []sample{
		{"compared and switched on", map[string]string{
			"manager/a.go": doc("manager") + imports + use +
				`bool { switch o { case q.TallyCommit, (q.TallyAbort): return true }; return v == q.VoteYes || q.Forward != s || k >= q.Refused }`,
		}, []string{
			"verdicts: quorum.TallyCommit", "verdicts: quorum.TallyAbort", "verdicts: quorum.VoteYes", "verdicts: quorum.Forward",
			"verdicts: quorum.Refused",
		}},
		{"made, named and asked", map[string]string{
			"internal/wire/a.go": doc("wire") + imports +
				`func f(s q.Settlement) (q.RankVote, int, bool) { return q.RankVote{Vote: q.VoteNo}, int(q.Refused), s.Settles() }`,
		}, nil},
		{"in quorum, its tests, and other tests", map[string]string{
			"quorum/a.go":       "package quorum\n" + `func f(v Vote) bool { return v == VoteYes }`,
			"manager/a.go":      doc("manager"),
			"manager/a_test.go": "package manager\n" + imports + use + `bool { return v == q.VoteYes }`,
		}, nil},
		{"the simulator's checkers", map[string]string{
			"internal/sim/checker/formed.go": doc("checker") + imports + use + `bool { return s == q.Forward }`,
			"internal/sim/checker/book.go":   "package checker\n" + imports + `func g(s q.Outcome) bool { return s == q.Discard }`,
			"internal/sim/step.go":           doc("sim") + imports + use + `bool { return s == q.Forward }`,
		}, []string{"verdicts: quorum.Discard", "verdicts: quorum.Forward"}},
	})
}

func TestPackagesAndSizes(t *testing.T) {
	long := "func F() {\n" + strings.Repeat("\t_ = 0\n", 69) + "}\n"
	check(t, []sample{
		{"no package comment", map[string]string{"pg/a.go": "package pg"}, []string{"package-comment: package pg has no comment"}},
		{"a test package needs none", map[string]string{"test/chaos/a_test.go": "package chaos"}, nil},
		{"goroutines without goleak", map[string]string{
			"store/a.go": doc("store") + `import "sync"; func f(wg *sync.WaitGroup) { wg.Go(func() {}) }`,
		}, []string{"goleak: package store starts goroutines"}},
		{"goroutines with goleak", map[string]string{
			"store/a.go":      doc("store") + "func f() { go f() }",
			"store/m_test.go": "package store\n" + `import _ "go.uber.org/goleak"`,
			"pg/pgtest/a.go":  doc("pgtest") + "func f() { go f() }",
		}, nil},
		{"a generated file without its mark", map[string]string{
			"internal/wire/a.pb.go": doc("wire"),
		}, []string{"generated: a generated file"}},

		{"a long function", map[string]string{"pg/a.go": doc("pg") + long}, []string{"func-length: F has 71 lines"}},
		{"a long file", map[string]string{
			"pg/a.go":      doc("pg") + strings.Repeat("\n", 799),
			"pg/a_test.go": "package pg" + strings.Repeat("\n", 1001),
			"pg/b_test.go": "package pg" + strings.Repeat("\n", 1000),
		}, []string{"file-length: file has 801 lines", "file-length: file has 1001 lines"}},
		{"generated files may be long", map[string]string{
			"pg/a.go": "// Code generated by hand. DO NOT EDIT.\n\n" + doc("pg") + long + strings.Repeat("\n", 800),
		}, nil},
		{"no test names an invariant", map[string]string{
			"docs/PROTOCOL.md": page + "| **Q11** | new |\n",
		}, []string{"invariants: no test names Q11"}},
		{"a transcript may name it", map[string]string{
			"docs/PROTOCOL.md":        page + "| **Q11** | new |\n",
			"quorum/testdata/q11.txt": "This is Q11.\n",
		}, nil},
		{"the page has another form", map[string]string{"docs/PROTOCOL.md": "Q1 is a rule."}, []string{"invariants: found 0 invariants"}},
	})
}

// Calls and words that have no place where they are.
func TestBanned(t *testing.T) {
	for _, c := range []struct {
		path, src string
		want      string
	}{
		{"pg/a_test.go", `import "time"; func f() { time.Sleep(1) }`, "sleep: time.Sleep in a test"},
		{"pg/a.go", `import "time"; func f() { time.Sleep(1) }`, ""},
		{"test/chaos/a_test.go", `import "time"; func f() { time.Sleep(1) }`, ""},
		{"pg/a.go", `import "context"; var c = context.TODO()`, "todo-context"},
		{"pg/a.go", `import "os"; func f() { os.Exit(1) }`, "exit: os.Exit"},
		{"pg/a_test.go", `import "os"; func f() { os.Exit(1) }`, ""},
		{"train/spawn/a.go", `import "os"; func f() { os.Exit(1) }`, ""},
		{"pg/a.go", `import "log"; func f() { log.Fatalf("x") }`, "exit: log.Fatal"},
		{"pg/a.go", `import "fmt"; func f() { fmt.Println() }`, "print: fmt.Print"},
		{"pg/a.go", `import f2 "fmt"; func f() { f2.Printf("") }`, "print: fmt.Print"},
		{"pg/a.go", `import ("fmt"; "io"); func f(w io.Writer) { fmt.Fprintln(w) }`, ""},
		{"pg/a_test.go", `import "fmt"; func f() { fmt.Println() }`, ""},
		{"pg/a.go", `func init() {}`, "init: func init"},
		{"nccl/a.go", `func init() {}`, ""},
		{"pg/a.go", `type T int; func (T) init() {}`, ""},
		{"pg/a.go", `import _ "github.com/rs/zerolog/log"`, "global-logger"},
		{"pg/a.go", `import "github.com/rs/zerolog"; func f() { zerolog.SetGlobalLevel(0) }`, "global-logger"},
		{"pg/a.go", `import "github.com/rs/zerolog"; var l = zerolog.New(nil)`, "logger: a logger whose lines"},
		{"internal/logline/a.go", `import "github.com/rs/zerolog"; var l = zerolog.New(nil)`, ""},
		{"pg/a_test.go", `import "github.com/rs/zerolog"; var l = zerolog.New(nil)`, ""},
		{"pg/a.go", `import "os"; var v = os.Getenv("X")`, "environment"},
		{"pg/a.go", `import "os"; func ConfigFromEnv() { os.Getenv("X") }`, ""},
		{"pg/a.go", `import "errors"; var e = errors.New("failed to dial")`, "error-text: an error that says"},
		{"pg/a.go", `import "fmt"; var e = fmt.Errorf("Failed to dial: %w", nil)`, "error-text: an error that says"},
		{"pg/a.go", `import "errors"; var e = errors.New("Dial it")`, "error-text: an error that begins"},
		{"pg/a.go", `import "errors"; var e = errors.New("dial it.")`, "error-text: an error that ends"},
		{"pg/a.go", `import "fmt"; var e = fmt.Errorf("Timeout = %d, want 1", 0)`, ""},
		{"pg/a.go", `import "errors"; var e = errors.New("AllReduce takes one tensor")`, ""},
		{"pg/a.go", `import "errors"; var e = errors.New("TLS is off")`, ""},
		{"pg/a.go", "// TODO: later\nvar x int", "todo: a TODO of nobody"},
		{"pg/a.go", "// TODO(#7): later\nvar x int", ""},
		{"pg/a.go", "// FIXME\nvar x int", "todo: a FIXME"},
		{"pg/a.go", "// The reign ends.\nvar x int", "word: \"reign\" is no word of the field"},
		{"pg/a.go", "var beginReign int", "word: write: leadership"},
		{"pg/a.go", "// foreign keys\nvar heedless int", ""},
		{"pg/a.go", "// " + strings.Repeat("Nobody, or whoever. ", 5) + "\nvar x int", "persons: name the thing"},
		{"pg/a.go", "// Nobody, or whoever it is.\nvar x int", ""},
		{"pg/a_test.go", "// " + strings.Repeat("Nobody, or whoever. ", 5) + "\nvar x int", ""},
		{"pg/a_test.go", `import "testing"; func TestX(t *testing.T) { t.SkipNow() }`, "skip: a test skipped"},
		{"pg/a_test.go", `import "testing"; func TestX(t *testing.T) { t.Skip("no GPU") }`, ""},
	} {
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		t.Run(c.path+" "+c.src, func(t *testing.T) {
			dir, _, _ := strings.Cut(c.path, "/")
			expect(t, repo(map[string]string{c.path: doc(dir) + c.src + "\n"}), "", want)
		})
	}
}

// The ratchet lets debts be, not grow, and asks for less when they shrink.
func TestRatchet(t *testing.T) {
	fs := repo(map[string]string{
		"pg/a.go": doc("pg") + "func F() {\n" + strings.Repeat("\t_ = 0\n", 78) + "}\n",
		"pg/b.go": "package pg\n" + `import "fmt"; func g() { fmt.Print(); fmt.Print() }`,
	})
	const length, print = "func-length pg/a.go F ", "print pg/b.go - "
	for _, c := range []struct {
		name, ratchet string
		want          []string
	}{
		{"as known", length + "80 # why\n" + print + "2", nil},
		{"grown", length + "79\n" + print + "1", []string{"func-length: F has 80", "print: fmt.Print", "print: fmt.Print"}},
		{"shrunk", length + "81\n" + print + "3", []string{"ratchet: is 80 by now, not 81; write 80", "ratchet: write 2"}},
		{"gone", length + "80\n" + print + "2\nsleep pg/c.go - 1", []string{"ratchet: is 0 by now, not 1; remove the line"}},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, fs, c.ratchet, c.want) })
	}
	for _, bad := range []string{"print pg/b.go 2", "print pg/b.go - two", "print pg/b.go - 0"} {
		if _, err := Check(fs, bad); err == nil || !strings.Contains(err.Error(), "ratchet.txt:1") {
			t.Errorf("ratchet %q: got %v, want an error that names the line", bad, err)
		}
	}
}

// expect checks the problems of a repository: each wanted one is "rule: piece
// of the message", and there are no others.
func expect(t *testing.T, fs fstest.MapFS, ratchet string, want []string) {
	t.Helper()
	problems, err := Check(fs, ratchet)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		rule, piece, _ := strings.Cut(w, ": ")
		found := false
		for i, p := range problems {
			if p.Rule == rule && strings.Contains(p.What, piece) {
				problems = append(problems[:i:i], problems[i+1:]...)
				found = true
				break
			}
		}
		if !found {
			t.Errorf("no problem %q", w)
		}
	}
	for _, p := range problems {
		t.Errorf("got %v", p)
	}
}

// A package over the bound needs a line in the ratchet, in hundreds of lines.
func TestPackageLength(t *testing.T) {
	files := map[string]string{"pg/doc.go": doc("pg")}
	for i := range 4 {
		files[fmt.Sprintf("pg/f%d.go", i)] = "package pg\n" + strings.Repeat("\n", 600)
	}
	expect(t, repo(files), "", []string{"package-length: package has 24"})
	expect(t, repo(files), "package-length pg - 25", nil)

	// Comments of the rules do not count.
	const body = "package quorum\n\n// Say why.\nconst a = 1 // and what\n\n/* So\nand so. */\nvar b int\n"
	rules := map[string]string{"quorum/doc.go": doc("quorum")}
	for i := range 8 {
		if i == 6 {
			expect(t, repo(rules), "", nil)
		}
		rules[fmt.Sprintf("quorum/f%d.go", i)] = body + strings.Repeat("// A rule.\n", 450) + strings.Repeat("\n", 300)
	}
	expect(t, repo(rules), "", []string{"package-length: package has 244"})
}

// An exported name has a user outside its package, or is counted.
func TestExports(t *testing.T) {
	const none = "exports: package exports 1 names without a user outside it"
	check(t, []sample{
		{"without a user", map[string]string{"store/a.go": doc("store") + "func Get() {}\nfunc (T) M() {}"},
			[]string{none}},
		{"its own code and its own tests are none", map[string]string{
			"store/a.go":      doc("store") + "const Most = 1\nvar x = Most",
			"store/a_test.go": "package store_test\n" + `import "github.com/skerry-ft/skerry/store"` + "\nvar x = store.Most",
		}, []string{none + "; unexport or delete them, or show them in an Example or in docs/COVERAGE.md: Most"}},
		{"another package, another's test, an example, the page", map[string]string{
			"store/a.go":       doc("store") + "func A() {}\nfunc B() {}\nfunc C() {}",
			"pg/a.go":          doc("pg") + `import s "github.com/skerry-ft/skerry/store"` + "\nvar x = s.A",
			"pg/a_test.go":     "package pg\n" + `import "github.com/skerry-ft/skerry/store"` + "\nvar x = store.B",
			"store/b_test.go":  "package store_test\n" + `import "github.com/skerry-ft/skerry/store"` + "\nfunc ExampleC() { store.C() }",
			"tensor/a.go":      doc("tensor") + "func F() {}",
			"docs/COVERAGE.md": "| theirs | `tensor.F` `store.Client.Get` |",
		}, nil},
		{"shown by declarations of its package", map[string]string{
			"store/a.go": doc("store") + `
				func A(o Option) *Result { return nil }
				type (Option func(); Result struct { Kind; Inner Inner }; Inner interface { M(Arg) })
				type (Kind int; Arg int)
				const (First Kind = iota; Second)
				func (Result) Each(yield func(Item)) {}
				type Item int`,
			"pg/a.go": doc("pg") + `import "github.com/skerry-ft/skerry/store"` + "\nvar x = store.A",
		}, nil},
		{"what fields that are not exported are made of", map[string]string{
			"store/a.go": doc("store") + "func A(o Option) {}\ntype Option struct { inner Inner }\ntype Inner int",
			"pg/a.go":    doc("pg") + `import "github.com/skerry-ft/skerry/store"` + "\nvar x = store.A",
		}, []string{none}},
		{"internal packages and programs", map[string]string{
			"internal/burst/a.go": doc("burst") + "func A() {}",
			"cmd/lighthouse/a.go": doc("main") + "func A() {}",
		}, nil},
	})
}
