// Package secrets runs the real programs guarded, at their most talkative, and
// looks for their secrets in everything that others can see of them.
package secrets
