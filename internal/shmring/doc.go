// Package shmring has rings of records in memory that two processes share: one
// writes records, the other reads them where they lie.
//
// # Usage
//
// Each side has a [Words] in shared memory, and each ring its data. The writer of a
// ring asks a [Producer] to Reserve memory, fills it, and publishes it; the reader
// has a [Consumer] Peek at the head of the next record, Take it, and Release it when
// it is done with the memory. Who wakes a side that sleeps, and how, is the caller's
// affair: a reader that sleeps says so in Asleep, and a producer that finds no room
// says so in Blocked, which the reader looks at after each Release.
//
// # Records
//
// A record is a head of a fixed size and a payload, and takes a multiple of [Align]
// bytes. It never goes round the ring's end: where it does not fit, a mark stands in
// its place, and it lies at the start. So a record's head must not begin with that
// mark ([Skip]), and the ring must hold two of the largest records: then one fits
// wherever in the ring it is to start, once the ring is empty.
//
// # Memory model
//
// Each word has one writer (Asleep may be the exception, see package futex) and a cache
// line of its own. All are accessed by sync/atomic, whose operations are sequentially
// consistent, in one order for both processes:
//
//   - What was written to a record before Publish, a reader that sees the new Head
//     sees. What a reader read before Release, a writer that sees the new Tail cannot
//     spoil.
//   - No room: the producer stores Blocked, and then loads Tail again. The reader stores
//     Tail, and then loads Blocked. One of them sees the other's store: either the
//     producer finds room, or the reader knows that it must wake it.
//   - Sleep: the sleeper stores Asleep, and then loads Head. The producer stores Head,
//     and then loads Asleep. Again one of them sees the other's store.
//
// # Trust
//
// What the peer may write is loaded once, and used only within bounds: Head and Tail
// against a place that each side keeps to itself, a record's head as a copy. An error
// means that the peer's words make no sense. The payload stays the peer's memory: copy
// it before it is decoded.
//
// # Concurrency
//
// A Producer and a Consumer are each used by one goroutine at a time, but for RoomCame,
// Pending, Look and Release, which any may call.
package shmring
