package testkit

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// envAll is the environment variable that asks for all that the tests can do.
const envAll = "SKERRY_TEST"

// All says whether tests do all that they can: every row of every table, and what takes long.
// Plain `go test ./...` runs a few rows of each large table, so that it ends within minutes on two
// cores. All is asked for by SKERRY_TEST=all (the gate: a third of the packages, by commit), by naming
// tests with -run, and by any flag of a package's own. What -short leaves out it leaves out of all.
func All() bool {
	asked := allFromEnv()
	flag.Visit(func(f *flag.Flag) {
		asked = asked || f.Name == "test.run" && f.Value.String() != "" || !strings.HasPrefix(f.Name, "test.")
	})
	return asked
}

// allFromEnv says whether the environment asks for all.
func allFromEnv() bool { return os.Getenv(envAll) == "all" }

// Some gives the first n of a table's rows, or all of them, see All. Put the most telling rows
// first.
func Some[T any](rows []T, n int) []T {
	if All() {
		return rows
	}
	return rows[:min(n, len(rows))]
}

// Long skips a test, or a row of a table, that takes long, unless All.
func Long(t testing.TB) {
	t.Helper()
	if !All() {
		t.Skip("takes long: SKERRY_TEST=all runs it, and so does its name after -run")
	}
}
