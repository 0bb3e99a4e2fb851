// Package localsgd will hold LocalSGD and (streaming) DiLoCo: replicas train
// apart for a number of steps and then agree on an average.
//
// This is the contract; there is no implementation yet.
//
// # Contract
//
// LocalSGD averages parameters every sync steps; DiLoCo averages
// pseudo-gradients (global minus local) and feeds them to an outer optimizer,
// fragment by fragment. A synchronisation is one step of manager.Manager: if
// it is discarded, parameters are back at the last agreed ones, and the same
// fragment is tried again. Every parameter belongs to exactly one fragment and
// every element is averaged, whatever the bucket size. Fragments are chosen by
// the manager's step, so all replicas agree. The state that a healing replica
// needs is, per fragment, the agreed parameters and the outer optimizer's.
package localsgd

import "context"

// Algorithm is what a training loop sees of LocalSGD or DiLoCo.
type Algorithm interface {
	// AfterStep is called after each inner optimizer step. It returns at once
	// but for the steps that synchronise; synced tells whether one was
	// committed by this call. Errors are those of manager.ShouldCommit.
	AfterStep(ctx context.Context) (synced bool, err error)
	// SyncEvery is the number of inner steps between synchronisations.
	SyncEvery() int
}
