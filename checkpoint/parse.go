package checkpoint

import (
	"encoding/json"
	"strconv"
)

// headerParser reads a header token by token. Decoding into a map would let
// the last of two equal names win in silence; this refuses the second.
type headerParser struct {
	dec *json.Decoder
}

func (p *headerParser) header() (*layout, error) {
	l := &layout{}
	seen := make(map[string]bool)
	err := p.object("header", func(name string) error {
		if seen[name] {
			return corrupt("name %q appears twice", clip(name))
		}
		seen[name] = true
		if name == metadataKey {
			var err error
			l.meta, err = p.metadata()
			return err
		}
		if len(l.entries) == MaxTensors {
			return corrupt("more than %d tensors", MaxTensors)
		}
		e, err := p.entry(name)
		l.entries = append(l.entries, e)
		return err
	})
	return l, err
}

func (p *headerParser) metadata() (map[string]string, error) {
	meta := make(map[string]string)
	err := p.object("metadata", func(key string) error {
		if _, ok := meta[key]; ok {
			return corrupt("metadata key %q appears twice", clip(key))
		}
		value, err := p.text("metadata value")
		meta[key] = value
		return err
	})
	return meta, err
}

func (p *headerParser) entry(name string) (entry, error) {
	e := entry{TensorInfo: TensorInfo{Name: name}}
	if err := checkName(name); err != nil {
		return e, corrupt("%v", err)
	}
	seen := make(map[string]bool)
	err := p.object("tensor", func(key string) error {
		if seen[key] {
			return corrupt("tensor %q: %s appears twice", clip(name), key)
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
		return corrupt("tensor %q: unknown key %q", clip(name), clip(key))
	})
	if err != nil {
		return e, err
	}
	if len(seen) != 3 {
		return e, corrupt("tensor %q lacks dtype, shape or data_offsets", clip(name))
	}
	return e, e.check()
}

// check compares the shape's size with the offsets.
func (e entry) check() error {
	size, ok := e.byteSize()
	if !ok {
		return corrupt("tensor %q: shape %v of %s is over %d bytes", clip(e.Name), e.Shape, dtypeNames[e.DType], int64(MaxStateBytes))
	}
	if e.from < 0 || e.to < e.from || e.to > MaxStateBytes || e.to-e.from != size {
		return corrupt("tensor %q: offsets [%d,%d], want %d bytes below %d",
			clip(e.Name), e.from, e.to, size, int64(MaxStateBytes))
	}
	return nil
}

func (p *headerParser) dtype(e *entry) error {
	name, err := p.text("dtype")
	if err != nil {
		return err
	}
	d, ok := dtypeOf(name)
	if !ok {
		return corrupt("tensor %q: unknown dtype %q", clip(e.Name), clip(name))
	}
	e.DType = d
	return nil
}

func (p *headerParser) shape(e *entry) error {
	e.Shape = []int{}
	return p.numbers("shape", MaxDims, func(n int64) { e.Shape = append(e.Shape, int(n)) })
}

func (p *headerParser) offsets(e *entry) error {
	var got []int64
	if err := p.numbers("data_offsets", 2, func(n int64) { got = append(got, n) }); err != nil {
		return err
	}
	if len(got) != 2 {
		return corrupt("tensor %q: %d data_offsets, want 2", clip(e.Name), len(got))
	}
	e.from, e.to = got[0], got[1]
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
			return corrupt("%s has more than %d numbers", what, limit)
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
		return 0, corrupt("%s: %v", what, err)
	}
	n, ok := tok.(json.Number)
	if !ok {
		return 0, corrupt("%s holds %T, want an integer", what, tok)
	}
	v, err := strconv.ParseUint(string(n), 10, 63)
	if err != nil {
		return 0, corrupt("%s holds %q, want an integer in [0, 2^63)", what, clip(string(n)))
	}
	return int64(v), nil
}

func (p *headerParser) text(what string) (string, error) {
	tok, err := p.dec.Token()
	if err != nil {
		return "", corrupt("%s: %v", what, err)
	}
	s, ok := tok.(string)
	if !ok {
		return "", corrupt("%s is %T, want a string", what, tok)
	}
	return s, nil
}

func (p *headerParser) delim(what string, want json.Delim) error {
	tok, err := p.dec.Token()
	if err != nil {
		return corrupt("%s: %v", what, err)
	}
	if got, ok := tok.(json.Delim); !ok || got != want {
		return corrupt("%s: got %v, want %v", what, tok, want)
	}
	return nil
}

// clip shortens a name that a peer chose, for messages.
func clip(s string) string {
	const most = 128
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
