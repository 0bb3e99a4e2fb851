package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/skerry-ft/skerry/tensor"
)

// What a header may hold, whoever wrote it.
const (
	// MaxHeaderBytes bounds the JSON header of a state.
	MaxHeaderBytes = 64 << 20
	// maxTensors bounds the tensors of one state.
	maxTensors = 1 << 20
	// maxDims bounds the dimensions of one tensor.
	maxDims = 32
	// maxNameBytes bounds a tensor's name.
	maxNameBytes = 4096
	// MaxStateBytes bounds the tensors of one state together.
	MaxStateBytes = 1 << 44
)

// metadataKey is the one key of a safetensors header that is not a tensor.
const metadataKey = "__metadata__"

// lengthBytes is the size of the little-endian header length in front.
const lengthBytes = 8

// dataAlign is what the header is padded to with spaces, so that tensors that
// are mapped from a file are aligned for every dtype.
const dataAlign = 16

// Entry is one tensor of a layout: what it is, and where its bytes lie in the
// data section.
type Entry struct {
	TensorInfo
	From, To int64
}

// Layout is what a safetensors header says: every tensor by offset, without
// holes or overlaps, and the metadata.
type Layout struct {
	Entries []Entry // by offset
	Meta    map[string]string
}

// Size is the length of the data section.
func (l *Layout) Size() int64 {
	if len(l.Entries) == 0 {
		return 0
	}
	return l.Entries[len(l.Entries)-1].To
}

// infos lists the tensors by name.
func (l *Layout) infos() []TensorInfo {
	out := make([]TensorInfo, len(l.Entries))
	for i, e := range l.Entries {
		out[i] = e.TensorInfo
	}
	slices.SortFunc(out, func(a, b TensorInfo) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Header gives the length and the header of l: the beginning of a safetensors file.
// The text is the same for equal layouts, byte for byte.
func (l *Layout) Header() ([]byte, error) {
	b := append(make([]byte, lengthBytes), '{')
	if len(l.Meta) > 0 {
		meta, err := json.Marshal(l.Meta) // sorts keys
		if err != nil {
			return nil, fmt.Errorf("encode metadata: %w", err)
		}
		b = append(b, `"`+metadataKey+`":`...)
		b = append(b, meta...)
	}
	for i, e := range l.Entries {
		if i > 0 || len(l.Meta) > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = e.appendJSON(b); err != nil {
			return nil, err
		}
	}
	b = append(b, '}')
	for len(b)%dataAlign != 0 {
		b = append(b, ' ')
	}
	n := len(b) - lengthBytes
	if n > MaxHeaderBytes {
		return nil, fmt.Errorf("header of %d bytes, want at most %d", n, MaxHeaderBytes)
	}
	binary.LittleEndian.PutUint64(b, uint64(n))
	return b, nil
}

func (e Entry) appendJSON(b []byte) ([]byte, error) {
	name, err := json.Marshal(e.Name)
	if err != nil {
		return nil, fmt.Errorf("encode name %q: %w", e.Name, err)
	}
	b = append(b, name...)
	b = append(b, `:{"dtype":"`...)
	b = append(b, dtypeNames[e.DType]...)
	b = append(b, `","shape":[`...)
	for i, d := range e.Shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(d), 10)
	}
	b = append(b, `],"data_offsets":[`...)
	b = strconv.AppendInt(b, e.From, 10)
	b = append(b, ',')
	b = strconv.AppendInt(b, e.To, 10)
	return append(b, `]}`...), nil
}

// ReadHeader reads a length and a header from r. It allocates no more than
// what r has sent so far, whatever the length claims.
func ReadHeader(r io.Reader) (*Layout, error) {
	var length [lengthBytes]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, fmt.Errorf("read header length: %w", Truncated(err))
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > MaxHeaderBytes {
		return nil, Corrupt("header length = %d, want at most %d", n, MaxHeaderBytes)
	}
	var text bytes.Buffer
	if _, err := io.CopyN(&text, r, int64(n)); err != nil {
		return nil, fmt.Errorf("read header: %w", Truncated(err))
	}
	return parseHeader(text.Bytes())
}

// parseHeader reads the JSON text of a header, which may come from anybody.
func parseHeader(text []byte) (*Layout, error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, Corrupt("header does not begin with {")
	}
	if !utf8.Valid(text) {
		return nil, Corrupt("header is not UTF-8")
	}
	p := headerParser{dec: json.NewDecoder(bytes.NewReader(text))}
	p.dec.UseNumber()
	l, err := p.header()
	if err != nil {
		return nil, err
	}
	if rest := bytes.TrimRight(text[p.dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return nil, Corrupt("%d bytes after the header's end", len(rest))
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	return l, nil
}

// check orders the entries by offset and refuses holes and overlaps.
func (l *Layout) check() error {
	slices.SortFunc(l.Entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), strings.Compare(a.Name, b.Name))
	})
	var at int64
	for _, e := range l.Entries {
		switch {
		case e.From < at:
			return Corrupt("tensor %q overlaps the one before it at offset %d", e.Name, e.From)
		case e.From > at:
			return Corrupt("hole before tensor %q: offset %d, want %d", e.Name, e.From, at)
		}
		at = e.To
	}
	return nil
}

// byteSize is the size of a tensor, or false if it overflows or exceeds
// MaxStateBytes.
func (t TensorInfo) byteSize() (int64, bool) {
	n := uint64(t.DType.Size())
	for _, d := range t.Shape {
		if d < 0 {
			return 0, false
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > MaxStateBytes {
			return 0, false
		}
		n = lo
	}
	return int64(n), true
}

// ErrCorrupt is returned when bytes do not match their checksum or format.
var ErrCorrupt = errors.New("safetensors: corrupt bytes")

// Corrupt wraps ErrCorrupt with what is wrong.
func Corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// Truncated turns an early end of the bytes into ErrCorrupt and leaves other
// errors alone.
func Truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Corrupt("bytes end early")
	}
	return err
}

// dtypeNames are the dtypes' names in the format. C128 is ours: the format has no
// complex128, and other readers refuse a file that holds it. It is never written.
var dtypeNames = map[tensor.DType]string{
	tensor.Uint8:      "U8",
	tensor.Int8:       "I8",
	tensor.Int16:      "I16",
	tensor.Int32:      "I32",
	tensor.Int64:      "I64",
	tensor.Uint16:     "U16",
	tensor.Uint32:     "U32",
	tensor.Uint64:     "U64",
	tensor.Bool:       "BOOL",
	tensor.Float16:    "F16",
	tensor.BFloat16:   "BF16",
	tensor.Float32:    "F32",
	tensor.Float64:    "F64",
	tensor.Complex64:  "C64",
	tensor.Complex128: "C128",
	tensor.Float8E4M3: "F8_E4M3",
	tensor.Float8E5M2: "F8_E5M2",
}

// dtypeOf is the dtype of a name in the format.
func dtypeOf(name string) (tensor.DType, bool) {
	for d, n := range dtypeNames {
		if n == name {
			return d, true
		}
	}
	return tensor.Invalid, false
}
