//go:build !skerry_nofence

package history

import "github.com/anishathalye/porcupine"

// want is what TestStaleLeader's history is.
const want = porcupine.Ok
