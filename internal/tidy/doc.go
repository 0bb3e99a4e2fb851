// Package tidy is the house style as a test: what a reviewer would have to
// look for by hand, and would miss once. [Check] reads all Go files of the
// repository and returns a [Problem] for each place that breaks a rule; every
// message names the fix.
//
// The rules: packages import only what the table in table.go allows, and all
// that it allows; quorum/ is pure; every package has a comment, and a goroutine-leak
// check where it has goroutines; functions, files and packages are short; words of a dialect are
// refused, and those for persons become fewer, as do exported names without a user;
// some calls have no place in some packages; what became of a step is weighed in
// quorum only; errors are written as in the standard library; every numbered invariant
// of docs/PROTOCOL.md is named in a test.
//
// Old debts stand in ratchet.txt with their size. They may shrink and go, not
// grow: a line that is larger than the debt is itself a problem.
//
// Tests beside it hold the pages of docs to the code: links and headings, symbols, environment
// variables, and each reason, state, error and warning in docs/TROUBLESHOOTING.md.
//
// It works on syntax alone, without types: it takes a second, and works while
// a package does not compile.
package tidy
