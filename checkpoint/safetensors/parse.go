package safetensors

import (
	"encoding/json"
	"strconv"
)

// headerParser reads a header token by token. Decoding into a map would let
// the last of two equal names win in silence; this refuses the second.
type headerParser struct {
	dec *json.Decoder
}

func (p *headerParser) header() (*Layout, error) {
	l := &Layout{}
	seen := make(map[string]bool)
	err := p.object("header", func(name string) error {
		if seen[name] {
			return Corrupt("name %q appears twice", Clip(name))
		}
		seen[name] = true
		if name == metadataKey {
			var err error
			l.Meta, err = p.metadata()
			return err
		}
		if len(l.Entries) == maxTensors {
			return Corrupt("more than %d tensors", maxTensors)
		}
		e, err := p.entry(name)
		l.Entries = append(l.Entries, e)
		return err
	})
	return l, err
}

func (p *headerParser) metadata() (map[string]string, error) {
	meta := make(map[string]string)
	err := p.object("metadata", func(key string) error {
		if _, ok := meta[key]; ok {
			return Corrupt("metadata key %q appears twice", Clip(key))
		}
		value, err := p.text("metadata value")
		meta[key] = value
		return err
	})
	return meta, err
}

func (p *headerParser) entry(name string) (Entry, error) {
	e := Entry{TensorInfo: TensorInfo{Name: name}}
	if err := checkName(name); err != nil {
		return e, Corrupt("%v", err)
	}
	seen := make(map[string]bool)
	err := p.object("tensor", func(key string) error {
		if seen[key] {
			return Corrupt("tensor %q: %s appears twice", Clip(name), key)
		}
		seen[key] = true
		switch key {
		case "dtype":
			return p.dtype(&e)
		case "shape":
			return p.shape(&e)
		case "data_offsets":
			return p.offsets(&e)
		}
		return Corrupt("tensor %q: unknown key %q", Clip(name), Clip(key))
	})
	if err != nil {
		return e, err
	}
	if len(seen) != 3 {
		return e, Corrupt("tensor %q lacks dtype, shape or data_offsets", Clip(name))
	}
	return e, e.check()
}

// check compares the shape's size with the offsets.
func (e Entry) check() error {
	size, ok := e.byteSize()
	if !ok {
		return Corrupt("tensor %q: shape %v of %s is over %d bytes", Clip(e.Name), e.Shape, dtypeNames[e.DType], int64(MaxStateBytes))
	}
	if e.From < 0 || e.To < e.From || e.To > MaxStateBytes || e.To-e.From != size {
		return Corrupt("tensor %q: offsets [%d,%d], want %d bytes below %d",
			Clip(e.Name), e.From, e.To, size, int64(MaxStateBytes))
	}
	return nil
}

func (p *headerParser) dtype(e *Entry) error {
	name, err := p.text("dtype")
	if err != nil {
		return err
	}
	d, ok := dtypeOf(name)
	if !ok {
		return Corrupt("tensor %q: unknown dtype %q", Clip(e.Name), Clip(name))
	}
	e.DType = d
	return nil
}

func (p *headerParser) shape(e *Entry) error {
	e.Shape = []int{}
	return p.numbers("shape", maxDims, func(n int64) { e.Shape = append(e.Shape, int(n)) })
}

func (p *headerParser) offsets(e *Entry) error {
	var got []int64
	if err := p.numbers("data_offsets", 2, func(n int64) { got = append(got, n) }); err != nil {
		return err
	}
	if len(got) != 2 {
		return Corrupt("tensor %q: %d data_offsets, want 2", Clip(e.Name), len(got))
	}
	e.From, e.To = got[0], got[1]
	return nil
}

// object reads {"key": …} and calls f for each key, which reads the value.
func (p *headerParser) object(what string, f func(key string) error) error {
	if err := p.delim(what, '{'); err != nil {
		return err
	}
	for p.dec.More() {
		key, err := p.text(what + " key")
		if err != nil {
			return err
		}
		if err := f(key); err != nil {
			return err
		}
	}
	return p.delim(what, '}')
}

// numbers reads an array of at most limit non-negative integers.
func (p *headerParser) numbers(what string, limit int, f func(int64)) error {
	if err := p.delim(what, '['); err != nil {
		return err
	}
	for n := 0; p.dec.More(); n++ {
		if n == limit {
			return Corrupt("%s has more than %d numbers", what, limit)
		}
		v, err := p.number(what)
		if err != nil {
			return err
		}
		f(v)
	}
	return p.delim(what, ']')
}

func (p *headerParser) number(what string) (int64, error) {
	tok, err := p.dec.Token()
	if err != nil {
		return 0, Corrupt("%s: %v", what, err)
	}
	n, ok := tok.(json.Number)
	if !ok {
		return 0, Corrupt("%s holds %T, want an integer", what, tok)
	}
	v, err := strconv.ParseUint(string(n), 10, 63)
	if err != nil {
		return 0, Corrupt("%s holds %q, want an integer in [0, 2^63)", what, Clip(string(n)))
	}
	return int64(v), nil
}

func (p *headerParser) text(what string) (string, error) {
	tok, err := p.dec.Token()
	if err != nil {
		return "", Corrupt("%s: %v", what, err)
	}
	s, ok := tok.(string)
	if !ok {
		return "", Corrupt("%s is %T, want a string", what, tok)
	}
	return s, nil
}

func (p *headerParser) delim(what string, want json.Delim) error {
	tok, err := p.dec.Token()
	if err != nil {
		return Corrupt("%s: %v", what, err)
	}
	if got, ok := tok.(json.Delim); !ok || got != want {
		return Corrupt("%s: got %v, want %v", what, tok, want)
	}
	return nil
}

// Clip shortens a name that a peer chose, for messages.
func Clip(s string) string {
	const most = 128
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
