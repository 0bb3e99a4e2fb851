//go:build race || invariants

package invariant

// Enabled: costly checks run in this build.
const Enabled = true
