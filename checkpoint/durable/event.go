package durable

import (
	"fmt"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// Event is what became of a save, or of the deletion of old ones after it.
type Event interface{ fmt.Stringer }

// Saved: this rank's part of a checkpoint is written.
type Saved struct {
	Position  quorum.Position
	Name      string // of the checkpoint
	Files     int    // besides the manifest
	SizeBytes int64
	Copied    time.Duration // what the step paid
	Wrote     time.Duration // beside training
}

// SaveFailed: a save is no checkpoint: it could not be written, or there was no state to
// copy (safetensors.ErrAbsent). Training goes on, and the next one tries again.
type SaveFailed struct {
	Position quorum.Position
	Name     string
	Err      error
}

// SaveSkipped: a save was due while the one before was being written.
type SaveSkipped struct {
	Position quorum.Position
	Writing  quorum.Position
}

// PruneFailed: what is not kept could not be deleted. The next save tries again.
type PruneFailed struct{ Err error }

// String implements fmt.Stringer.
func (e Saved) String() string {
	return fmt.Sprintf("checkpoint of step %d written: %d bytes in %d files, %v of copying, %v of writing",
		e.Position.Step, e.SizeBytes, e.Files, e.Copied, e.Wrote)
}

// String implements fmt.Stringer.
func (e SaveFailed) String() string {
	return fmt.Sprintf("checkpoint of step %d not written: %v", e.Position.Step, e.Err)
}

// String implements fmt.Stringer.
func (e SaveSkipped) String() string {
	return fmt.Sprintf("checkpoint of step %d skipped: that of step %d is being written", e.Position.Step, e.Writing.Step)
}

// String implements fmt.Stringer.
func (e PruneFailed) String() string { return fmt.Sprintf("old checkpoints not deleted: %v", e.Err) }
