// Package hosts runs the programs, as docs/OPERATIONS.md starts them, on hosts of
// their own: network namespaces, each with a cable to one switch that can be
// pulled. It takes root, and leaves the host's own network alone.
package hosts
