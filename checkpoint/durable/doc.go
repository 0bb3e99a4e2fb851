// Package durable writes checkpoints of a training run to where they outlive it, and
// reads them back. Heals move a state from a replica that lives; a run whose replicas
// all died goes on from here.
//
//	dir, err := localdir.New(localdir.Config{Path: "/ckpt/run7"})
//	c, err := durable.New(durable.Config{Store: dir, Every: 100})
//	err = c.Register("model", model.State, model.Load)
//	found, err := c.Restore(ctx)                       // the newest whole one fills the tensors
//	if err == nil { cfg.Start = manager.Start{Position: found.Position, Batches: found.Batches} }
//	else if !errors.Is(err, durable.ErrNone) { return err }
//	m, err := manager.New(cfg)
//	err = c.RegisterAt(m)                              // the same parts, for heals
//	go c.Run(ctx)
//	for m.Step() < steps {
//		…
//		ok, err := m.ShouldCommit(ctx)
//		if ok { optimizer.Step() }
//		err = c.AfterStep(ctx, m)                  // in every 100th step: a copy
//	}
//	err = c.Save(ctx, m); err = c.Flush(ctx)           // the last one
//
// A trainer whose parts need a Manager asks Find before manager.New for what Start
// says, registers, and calls Load then.
//
// # A save
//
// AfterStep and Save run on the trainer's goroutine, between ShouldCommit (and the
// optimizer's step) and the next StartQuorum, when nothing reads or changes the
// tensors. They call the save callbacks, and copy what these return into staging memory,
// which is as large as the state and is used again. This is all that a step pays. Run
// writes the copy beside training. A save that is due while the one before is still
// being written is skipped, or waits for it (Config.WaitBusy).
//
// What cannot be written (a full disk, a folder that is read-only, a store that does not
// answer) is an Event, a line in the log, and Flush's error. Training goes on, and the next
// save tries again, of the same position too.
//
// # Who writes
//
// OneWriter: the replica that is participant 0 of the newest quorum, into a store that
// all replicas share. It dies in the middle of a write: then what it wrote is no
// checkpoint, and whichever replica is participant 0 at the next interval writes that.
// EveryReplica: all do, each into a disk of its own, or into a common store. No two
// writers ever write to one name, so that they need not know of each other.
//
// Of a replica with several group ranks each writes what it has registered. A checkpoint
// is whole when all ranks have written theirs. A quorum that changes between the saves
// of two ranks of a replica can leave none of them whole; so can ranks that skip
// different saves because some are slower: let them wait.
//
// # What is written
//
//	<step>-<quorum id>-<writer>/                 one checkpoint
//		<group rank>-of-<group world size>/
//			00000.safetensors …          whole tensors, named "part/tensor", Config.MaxFileBytes each
//			manifest.json                written last
//
// A manifest has the format's version, the position and the batches, the participants,
// sizes and SHA-256 of each file, each part's Meta, and the SHA-256 of all that. Numbers
// have 16 and 5 digits. The same state gives the same files.
//
// A Store puts a file whole or not at all, and durably, and the manifest follows when
// all others are there. So whatever moment a process or the power fails, a rank's part of
// a checkpoint has a manifest and is whole, or has none and does not count.
//
// # Which are kept
//
// Those of the Config.Keep newest steps, and of each step that is a multiple of
// Config.KeepEvery. Group rank 0 of a writer deletes all that is older than the
// oldest of these after each save, manifests first; what is not whole goes by the same
// rule. One that Find has passed over as damaged does not count. Nothing that is not named
// like a checkpoint is touched.
//
// # Reading
//
// Find takes the newest position of which all ranks' manifests are there, and reads
// it whole: every file's size and digest, and each header. What is missing, torn or
// altered is passed over for the next, and Found.Rejected says what and why. A store
// that fails otherwise is an error: to go on from an older state because a network
// was down is for a person to decide. No tensor is written before a checkpoint has been found
// whole. All ranks of a replica read all ranks' files, because they must come to the
// same answer: ranks at different positions are one replica that is torn, and heals.
// Config.TrustOthers leaves it at the sizes of the others' files.
//
// Load fills the registered tensors in place: names, dtypes and shapes must be the
// same, else *safetensors.MismatchError, before anything is written; a part with Room
// takes tensors that it does not have yet. Then the load callbacks are told Meta, as
// after a heal. Any replica can read any checkpoint, whatever the number of replicas was
// and is.
//
// Another GroupWorldSize: whole tensors are dealt out anew by their names; each rank
// takes those that it has registered, wherever they lie. Tensors that several ranks wrote
// under one name must hold the same bytes, and Meta of one key the same text. Tensors
// that were cut over the ranks (one name, other bytes in each) are not joined
// or cut anew: that is an error, which names the tensor.
//
// # What a discarded step, a heal and a death do
//
// A discarded step is not saved: its position has been. A heal moves the position, and
// the next AfterStep goes by that. A replica that heals or is a spare is not participant
// 0, so it does not write under OneWriter. A death ends a write under way.
//
// # Errors
//
// ErrNone: no checkpoint was ever finished there; begin at step 0. ErrDamaged: some were,
// and none is whole now; nothing has been read. *safetensors.MismatchError: it is of
// another program. Load after a Find may find the files gone or changed: then it is
// checkpoint.ErrCorrupt or fs.ErrNotExist, the tensors are undefined, and Restore, which
// has Find and Load in one, begins again.
//
// # Goroutines
//
// Run is one, the caller's; AfterStep copies with a few, and waits for them. All waits end
// by their ctx.
package durable
