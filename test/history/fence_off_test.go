//go:build skerry_nofence

package history

import "github.com/anishathalye/porcupine"

// want is what TestStaleLeader's history is when the fence is taken out: it is
// caught.
const want = porcupine.Illegal
