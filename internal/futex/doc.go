// Package futex has the parts of futex(2) that golang.org/x/sys does not name: sleep
// until another goroutine, thread or process has changed a word of memory and says so.
//
// # Two ways to sleep
//
// [Sleep] and [Wake] are for a word that is 1 while somebody sleeps on it, in memory
// of two processes: Wake makes it 0 before it asks the kernel, and asks the kernel
// only if it was not. [WaitPrivate], [WaitAny] and [WakePrivate] are the plain calls.
//
// A sleep holds up an operating system's thread, not a goroutine alone. That halves the
// time of a wake-up, since the runtime's poller is not between; it is for threads that
// have nothing else to do. No wake-up waits, whatever another process has made of the
// word.
//
// # Other systems
//
// Where there is no futex(2) sleepers look again every millisecond, and no kernel tells who
// died: it is for developers who build and try things there, and slow.
package futex

// Bits of a word that the kernel knows as a lock's, see SetRobustList.
const (
	Waiters   = 1 << 31   // together with the thread's id: it holds the word
	OwnerDied = 1 << 30   // set by the kernel when that thread ends
	OwnerID   = 1<<30 - 1 // the thread's id

	// MaxAny is how many words WaitAny takes.
	MaxAny = 128
)
