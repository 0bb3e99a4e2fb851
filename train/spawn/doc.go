// Package spawn runs registered functions in processes of their own: this same
// binary, re-executed. It is what torch.multiprocessing.spawn is to PyTorch.
//
// # Usage
//
//	func main() {
//		spawn.Register("train", train) // before Init, same name on both sides
//		spawn.Init()                   // a worker runs its function here and exits
//		err := spawn.Run(ctx, 4, "train", spawn.Options{})
//	}
//
// A test calls Register and Init at the top of TestMain. Without Init a worker
// would run the whole program again: Start sees to it that such a child ends
// with a message that says which line is missing.
//
// # Life
//
// A worker dies with its parent, also when the parent is killed with SIGKILL
// and also when the worker is stopped: the kernel sends SIGKILL (the parent
// death signal), and a pipe whose end the parent holds tells a worker that was
// orphaned before that was in force. No worker stays a zombie: each Process is
// reaped by the goroutine that started it, whether or not anybody waits.
//
// # Concurrency
//
// Register and Init belong to the start of main. Everything else is safe for
// concurrent use.
package spawn
