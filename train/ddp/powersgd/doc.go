// Package powersgd is a communication hook of package ddp that sends low-rank
// approximations of gradients.
//
// [Hook] has what it computes, what it keeps from step to step, and how that is
// registered. A discarded step changes none of it; Reducer.Commit does. It blocks on
// nothing, starts no goroutines, and is owned by the trainer's goroutine with its
// Reducer. What it cannot do (gradients on a device, parameters that are not the
// Reducer's) fails the step with an error that says so. A step allocates nothing in
// steady state.
package powersgd
