//go:build skerry_nofence

package cluster

// Fenced is explained in fence.go. Never ship this build.
const Fenced = false
