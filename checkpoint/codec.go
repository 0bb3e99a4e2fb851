package checkpoint

import (
	"fmt"
	"io"
	"maps"
)

// Encode writes s to w as one safetensors file. The bytes are the same for
// equal states.
//
// complex128 is written as dtype "C128", which is our extension: the format has
// no name for it, and other readers refuse such a file.
// Source: huggingface/safetensors, "Format".
func Encode(w io.Writer, s State) error {
	v, err := viewOf(s)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	head, err := v.header()
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	if _, err := w.Write(head); err != nil {
		return fmt.Errorf("write header: %w", err)
	}
	for i, b := range v.bytes {
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("write tensor %q: %w", v.entries[i].Name, err)
		}
	}
	return nil
}

// Decode reads one safetensors file from r into the tensors of into, which
// must have the same names, dtypes and shapes (*MismatchError), and returns the
// metadata. It reads to the end of the data and not beyond. Into is undefined
// after an error other than *MismatchError.
//
// Bytes that no writer of the format could have written give ErrCorrupt.
func Decode(r io.Reader, into State) (map[string]string, error) {
	l, err := readHeader(r)
	if err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	v, err := viewOf(into)
	if err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	memory, err := v.arrange(l)
	if err != nil {
		return nil, err
	}
	for i, b := range memory {
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, fmt.Errorf("read tensor %q: %w", clip(l.entries[i].Name), truncated(err))
		}
	}
	if err := checkBools(l, memory); err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	return l.metadata(), nil
}

// Describe reads the header of a safetensors file and tells what it holds,
// by name, and its metadata.
func Describe(r io.Reader) ([]TensorInfo, map[string]string, error) {
	l, err := readHeader(r)
	if err != nil {
		return nil, nil, fmt.Errorf("describe state: %w", err)
	}
	return l.infos(), l.metadata(), nil
}

// metadata is a copy, never nil.
func (l *layout) metadata() map[string]string {
	m := make(map[string]string, len(l.meta))
	maps.Copy(m, l.meta)
	return m
}

// copyStep is how much is copied or checksummed between looks at ctx, and
// fits into a core's cache, so that the checksum reads what the copy has
// just brought in. After each step other goroutines get a turn: the process that
// gives or takes a state has beats to send, and a time slice is 10 ms.
const copyStep = 256 << 10
