// Package facts makes what a lighthouse says over HTTP of what it knows: package api has the
// types, the rules (package quorum) have the facts, and this is the way from the one to the
// other. It decides nothing, and is pure.
package facts
