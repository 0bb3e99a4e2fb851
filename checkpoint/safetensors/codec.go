package safetensors

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
	v, err := ViewOf(s)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	head, err := v.Header()
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	if _, err := w.Write(head); err != nil {
		return fmt.Errorf("write header: %w", err)
	}
	for i, b := range v.Bytes {
		if _, err := w.Write(b); err != nil {
			return fmt.Errorf("write tensor %q: %w", v.Entries[i].Name, err)
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
	l, err := ReadHeader(r)
	if err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	v, err := ViewOf(into)
	if err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	memory, err := v.Arrange(l)
	if err != nil {
		return nil, err
	}
	for i, b := range memory {
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, fmt.Errorf("read tensor %q: %w", Clip(l.Entries[i].Name), Truncated(err))
		}
	}
	if err := checkBools(l, memory); err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	return l.Metadata(), nil
}

// Describe reads the header of a safetensors file and tells what it holds,
// by name, and its metadata.
func Describe(r io.Reader) ([]TensorInfo, map[string]string, error) {
	l, err := ReadHeader(r)
	if err != nil {
		return nil, nil, fmt.Errorf("describe state: %w", err)
	}
	return l.infos(), l.Metadata(), nil
}

// Metadata is a copy, never nil.
func (l *Layout) Metadata() map[string]string {
	m := make(map[string]string, len(l.Meta))
	maps.Copy(m, l.Meta)
	return m
}
