// Package support measures which backend has which verb, dtype and reduce op,
// and keeps docs/SUPPORT.md true: the test runs everything on two ranks of
// every backend and compares with the page.
package support

//go:generate go test -count=1 -run TestSupport . -rewrite
