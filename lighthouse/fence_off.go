//go:build skerry_nofence

package lighthouse

// fenced is explained in fence.go. Never ship this build.
const fenced = false
