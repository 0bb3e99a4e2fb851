package safetensors

import (
	"bytes"
	"fmt"
	"io"
)

// NewReader gives what Encode writes, byte by byte as it is asked for, and how many
// bytes these are. It reads the tensors as they are then, and copies none of them: they
// must not change until the last byte has been read.
func NewReader(s State) (r io.Reader, size int64, err error) {
	v, err := ViewOf(s)
	if err != nil {
		return nil, 0, fmt.Errorf("encode state: %w", err)
	}
	head, err := v.Header()
	if err != nil {
		return nil, 0, fmt.Errorf("encode state: %w", err)
	}
	parts := make([]io.Reader, 0, 1+len(v.Bytes))
	parts = append(parts, bytes.NewReader(head))
	for _, b := range v.Bytes {
		parts = append(parts, bytes.NewReader(b))
	}
	return io.MultiReader(parts...), int64(len(head)) + v.Size(), nil
}

// DecodeEach reads one safetensors file from r, for a reader that does not know its
// tensors before, or wants some of them only, and returns the metadata. It calls take
// with each tensor, in the order of their bytes, for where these go: SizeBytes of
// memory, which is filled before the next call; or nil, and they are read and dropped.
// It reads to the end of the data and not beyond. The memory is undefined after an
// error.
//
// Bytes that no writer of the format could have written give ErrCorrupt; an error of
// take ends the reading, and is returned.
func DecodeEach(r io.Reader, take func(TensorInfo) ([]byte, error)) (map[string]string, error) {
	l, err := ReadHeader(r)
	if err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	for i, e := range l.Entries {
		memory, err := take(e.TensorInfo)
		if err != nil {
			return nil, err
		}
		if err := readTensor(r, e, memory); err != nil {
			return nil, fmt.Errorf("read tensor %q: %w", Clip(e.Name), err)
		}
		one := Layout{Entries: l.Entries[i : i+1]}
		if err := checkBools(&one, [][]byte{memory}); err != nil {
			return nil, fmt.Errorf("decode state: %w", err)
		}
	}
	return l.Metadata(), nil
}

// readTensor fills memory, or drops what it is nil for.
func readTensor(r io.Reader, e Entry, memory []byte) error {
	size := e.To - e.From
	switch {
	case memory == nil:
		_, err := io.CopyN(io.Discard, r, size)
		return Truncated(err)
	case int64(len(memory)) != size:
		return fmt.Errorf("%d bytes of memory, want %d", len(memory), size)
	}
	_, err := io.ReadFull(r, memory)
	return Truncated(err)
}
