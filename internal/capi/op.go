package capi

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// The places of an operation's numbers.
const (
	atKind = iota
	atDType
	atReduce
	atDivisor
	atRoot
	atPeer
	atTag
	atTimeout
	atFlat
	atIn
	atOut
	atInSplits
	atOutSplits
	fixed
)

// maxTensors bounds the tensors, and the splits, of one operation: a group has no more
// ranks.
const maxTensors = 1 << 16

// maxElements bounds those of one tensor.
const maxElements = 1 << 46

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", pg.ErrInvalidOp, fmt.Sprintf(format, args...))
}

// decode reads an operation.
func decode(words []int64) (*pg.Op, error) {
	if len(words) < fixed {
		return nil, invalid("%d numbers, want %d at least", len(words), fixed)
	}
	kind, err := code(kinds, words[atKind], "kind")
	if err != nil {
		return nil, err
	}
	reduce, err := code(reduces, words[atReduce], "reduce")
	if err != nil {
		return nil, err
	}
	counts := words[atIn:fixed]
	var tensors, splits int64
	for i, n := range counts {
		if n < 0 || n > maxTensors {
			return nil, invalid("count %d is %d, want 0 to %d", i, n, maxTensors)
		}
		if i < 2 {
			tensors += n
		} else {
			splits += n
		}
	}
	if want := fixed + 2*tensors + splits; int64(len(words)) != want {
		return nil, invalid("%d numbers, want %d", len(words), want)
	}
	op := &pg.Op{
		Kind: kind, Reduce: reduce, Divisor: int(words[atDivisor]), Root: int(words[atRoot]), Peer: int(words[atPeer]),
		Tag: int(words[atTag]), Flat: words[atFlat] != 0,
	}
	if us := words[atTimeout]; us > 0 {
		op.Deadline = time.Now().Add(time.Duration(us) * time.Microsecond)
	}
	rest := words[fixed:]
	if op.In, rest, err = takeTensors(words[atDType], rest, counts[0]); err != nil {
		return nil, err
	}
	if op.Out, rest, err = takeTensors(words[atDType], rest, counts[1]); err != nil {
		return nil, err
	}
	op.InSplits, rest = takeSplits(rest, counts[2])
	op.OutSplits, _ = takeSplits(rest, counts[3])
	return op, nil
}

// code is the value that has a number.
func code[T any](all []T, n int64, what string) (T, error) {
	var none T
	if n < 0 || n >= int64(len(all)) || what != "reduce" && n == 0 {
		return none, invalid("%s = %d, want less than %d", what, n, len(all))
	}
	return all[n], nil
}

func takeTensors(dtype int64, words []int64, n int64) ([]tensor.Tensor, []int64, error) {
	if n == 0 {
		return nil, words, nil
	}
	d, err := code(dtypes, dtype, "dtype")
	if err != nil {
		return nil, nil, err
	}
	all := make([]tensor.Tensor, n)
	for i := range all {
		if all[i], err = at(d, words[2*i], words[2*i+1]); err != nil {
			return nil, nil, err
		}
	}
	return all, words[2*n:], nil
}

// at is the caller's memory at an address.
func at(d tensor.DType, address, elements int64) (tensor.Tensor, error) {
	if elements < 0 || elements > maxElements || address == 0 && elements > 0 {
		return tensor.Tensor{}, invalid("%d elements at address %#x", elements, address)
	}
	var b []byte
	if elements > 0 {
		b = unsafe.Slice((*byte)(pointer(uintptr(address))), elements*int64(d.Size()))
	}
	t, err := tensor.FromBytes(d, b, int(elements))
	if err != nil {
		return t, invalid("%v", err)
	}
	return t, nil
}

// pointer is the memory at an address that is C's: the garbage collector knows nothing of
// it, so a number is as good as a pointer.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// addressOf is where a tensor lies; 0: it has no bytes.
func addressOf(t tensor.Tensor) int64 {
	if len(t.Bytes()) == 0 {
		return 0
	}
	return int64(uintptr(unsafe.Pointer(unsafe.SliceData(t.Bytes()))))
}

func takeSplits(words []int64, n int64) ([]int, []int64) {
	if n == 0 {
		return nil, words
	}
	all := make([]int, n)
	for i := range all {
		all[i] = int(words[i])
	}
	return all, words[n:]
}
