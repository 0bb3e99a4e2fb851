// Package baby runs any registered backend in a child process, so that a
// collective library that hangs or crashes cannot take the trainer down: the
// child can always be killed.
//
// # Usage
//
//	func main() {
//		tcp.Register()         // before Init: the child opens its backend by name
//		baby.Init()            // a child serves here and does not return
//		b, err := baby.New(baby.Options{Backend: "tcp"})
//		g := pg.NewGroup(b)
//	}
//
// The child is this same binary, re-executed as train/spawn does; Init at the
// top of main (or TestMain) is the one line that makes it one. [Register] makes
// "baby:tcp" a name that pg.Open knows.
//
// # A child per epoch
//
// Each Configure takes a child of its own and configures the backend in it
// once, so no byte of an old epoch can meet a new one. The child before is told
// to leave its group and to end; when it has not after Options.Grace, it is
// killed. With Options.Spare a second child waits, started and idle, and
// Configure takes that one.
//
// # Memory
//
// Tensors made by [Backend.Alloc] lie in shared memory, which the child maps:
// nothing is copied. Other host tensors are copied into shared memory at Submit
// and back when the op is done. Device tensors travel as handles
// (tensor.DeviceMemory.Export), which the backend in the child opens if it
// implements [Importer]; [Backend.Unshare] has it close one. With Options.Order
// an op waits, on the device, for what the caller's stream had to do at Submit.
// Without one Submit itself waits for that ([Settler]), or refuses the op.
//
// # Failure
//
// Ops travel as data with ids through a ring in shared memory, and their results
// through another; who waits for an op looks there for a moment, and a side that
// sleeps is woken by a futex (type listener has the states and rules). Many are in flight, complete in any order, and
// Submit never waits for the child: where the ring is full, ops queue on our
// side. What is rare or large takes a Unix socket.
//
// When the child ends, all pending ops fail once it has been reaped, with a
// [ChildError]: exit status or signal, and the last lines of its standard error.
// Until then its memory is not anybody else's. If it cannot be reaped within
// [ReapLimit], the memory of those ops is abandoned, never used again, and the
// error says so. A ballot that the child had been given has no entries then, not even
// this rank's own: nobody knows whether it went out, nor with which digest.
//
// Deadlines hold inside and outside: the child's backend ends an op at its
// deadline, and if the child does not say so within [Slack] it is killed. While
// ops are in flight the child must also answer pings: one that was silent for
// Options.Silence (stopped, swapped out) is killed. An Abort that the child does
// not carry out within Slack ends it, too.
//
// A child ignores SIGINT and SIGTERM, which are the trainer's to answer, and
// ends with its socket. It dies with its parent (see train/spawn). What a child
// sends is bounded and checked: it is the one that may be out of its mind, and
// one that breaks the protocol is killed.
//
// # Order
//
// Ops reach the child in the order of Submit. One that reads or writes a copied
// tensor of an earlier op waits in a queue until that op is done, and so do
// those behind it: ops on one tensor follow one another, as without a child.
//
// # Goroutines
//
//	name        owns                      ends when
//	child.read  the child's socket        the child has ended
//	listen      the results, when nobody  child.read tells it to
//	            waits for them
//	retire      a child on its way out    it has been reaped
//	warm        the spare being started   it is ready, or Close
//
// plus those of train/spawn, one per process. Close waits for all of them.
package baby
