// Package api has the types of what a lighthouse says over HTTP, for its server and for
// programs that read it. They are data: a program that has this package has nothing else
// of the lighthouse. docs/API.md says which path answers with which of them.
package api
