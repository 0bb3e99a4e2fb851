package shmring

import (
	"sync/atomic"
	"unsafe"

	"github.com/skerry-ft/skerry/internal/step"
)

// WordsBytes is the memory of one side's Words: a cache line for each.
const WordsBytes = 256

const (
	wordHead    = 0
	wordTail    = 64
	wordAsleep  = 128
	wordBlocked = 192
)

// Words are what one side of a pair of rings tells the other, in shared memory.
type Words struct {
	Head    step.Word64 // bytes of records that this side has published
	Tail    step.Word64 // bytes of the other side's records that it may overwrite
	Asleep  step.Word32 // whether this side is to be woken
	Blocked step.Word32 // not 0: this side's producer waits for room
}

// WordsAt returns the words at the start of b, which has at least WordsBytes; h may be
// nil.
func WordsAt(b []byte, h step.Hook) Words {
	_ = b[WordsBytes-1]
	at := func(off int) unsafe.Pointer { return unsafe.Pointer(&b[off]) }
	return Words{
		Head: step.At64((*atomic.Uint64)(at(wordHead)), h), Tail: step.At64((*atomic.Uint64)(at(wordTail)), h),
		Asleep: step.At32((*atomic.Uint32)(at(wordAsleep)), h), Blocked: step.At32((*atomic.Uint32)(at(wordBlocked)), h),
	}
}
