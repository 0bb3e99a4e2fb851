// Package boundjson decodes JSON from a file or a peer value by value, and lets no
// single value take more bytes than it may, and no list or object more elements.
// encoding/json alone reads a value of any size before its caller can look at it.
//
// An error names what was being read, and the bound. A Decoder is for one
// goroutine, and of no use after its first error.
package boundjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// gapBytes is how much white space, and how long a name, there may be between two
// values.
const gapBytes = 16 << 10

// maxErrorBytes bounds what an error repeats of encoding/json's.
const maxErrorBytes = 200

// Decoder reads one JSON text.
type Decoder struct {
	dec *json.Decoder
	in  *leash
}

// NewDecoder reads from r, at most most bytes. It reads ahead.
func NewDecoder(r io.Reader, most int64) *Decoder {
	in := &leash{r: r, all: most}
	return &Decoder{dec: json.NewDecoder(in), in: in}
}

// leash is a reader that ends with an error where a value is longer than it may be.
type leash struct {
	r     io.Reader
	all   int64 // bytes that may be read in all
	read  int64
	until int64 // bytes that may be read by now
	what  string
	most  int64 // bytes of what
}

// Read implements io.Reader.
func (l *leash) Read(p []byte) (int, error) {
	most := min(int64(len(p)), l.until-l.read)
	switch {
	case most <= 0:
		return 0, fmt.Errorf("%s has over %d bytes", l.what, l.most)
	case l.read >= l.all:
		n, err := l.r.Read(p[:1]) // the end, or a byte too many
		if n > 0 {
			return 0, fmt.Errorf("over %d bytes in all", l.all)
		}
		return 0, err
	}
	n, err := l.r.Read(p[:min(most, l.all-l.read)])
	l.read += int64(n)
	return n, err
}

// allow says what is read next, and how many bytes it may have.
func (d *Decoder) allow(what string, most int64) {
	d.in.what, d.in.most, d.in.until = what, most, d.dec.InputOffset()+most
}

// failed says where an error was, unless it says so itself.
func failed(what string, err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	said := err.Error()
	switch {
	case len(said) > maxErrorBytes: // encoding/json repeats the value
		return fmt.Errorf("%s: %.*q…", what, maxErrorBytes, said)
	case strings.HasPrefix(said, what):
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Value decodes the next value, of at most most bytes.
func (d *Decoder) Value(what string, most int64, into any) error {
	d.allow(what, most)
	if err := d.dec.Decode(into); err != nil {
		return failed(what, err)
	}
	return nil
}

// Text decodes a string of at most most bytes.
func (d *Decoder) Text(what string, most int, into *string) error {
	if err := d.Value(what, 6*int64(most)+2, into); err != nil { // \u0000 is six bytes
		return err
	}
	if len(*into) > most {
		return fmt.Errorf("%s has %d bytes, want at most %d", what, len(*into), most)
	}
	return nil
}

// open reads what begins a list or an object, and says whether there is one: null
// is none.
func (d *Decoder) open(what string, want json.Delim) (bool, error) {
	d.allow(what, gapBytes)
	got, err := d.dec.Token()
	switch {
	case err != nil:
		return false, failed(what, err)
	case got == nil:
		return false, nil
	case got != want:
		return false, fmt.Errorf("%s: %.40q, want %v", what, fmt.Sprint(got), want)
	}
	return true, nil
}

// shut reads what ends a list or an object.
func (d *Decoder) shut(what string) error {
	d.allow(what, gapBytes)
	if _, err := d.dec.Token(); err != nil {
		return failed(what, err)
	}
	return nil
}

// more says whether the list or object goes on.
func (d *Decoder) more(what string) bool {
	d.allow(what, gapBytes)
	return d.dec.More()
}

// List reads a list, or null, of at most most elements. each decodes the n-th, from
// 0.
func (d *Decoder) List(what string, most int, each func(n int) error) error {
	if there, err := d.open(what, '['); !there || err != nil {
		return err
	}
	for n := 0; d.more(what); n++ {
		if n == most {
			return fmt.Errorf("%s: over %d", what, most)
		}
		if err := each(n); err != nil {
			return err
		}
	}
	return d.shut(what)
}

// Object reads an object, or null, of at most most fields. each decodes the value
// of the field of that name; no name comes twice.
func (d *Decoder) Object(what string, most int, each func(name string) error) error {
	if there, err := d.open(what, '{'); !there || err != nil {
		return err
	}
	had := make(map[string]bool)
	for d.more(what) {
		if len(had) == most {
			return fmt.Errorf("%s: over %d fields", what, most)
		}
		d.allow("a name in "+what, gapBytes)
		token, err := d.dec.Token()
		if err != nil {
			return failed(what, err)
		}
		name, _ := token.(string) // an object's keys are strings, or that was the error
		if had[name] {
			return fmt.Errorf("%s: field %.40q stands twice", what, name)
		}
		had[name] = true
		if err := each(name); err != nil {
			return err
		}
	}
	return d.shut(what)
}

// End reads the end of the text: only white space may come before it.
func (d *Decoder) End() error {
	d.allow("what follows the text", gapBytes)
	if _, err := d.dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the text")
	}
	return nil
}

// Objects counts the objects in a JSON text, to most and one: each becomes some hundred
// bytes when it is decoded, however short it is.
func Objects(text []byte, most int) int {
	n, quoted := 0, false
	for i := 0; i < len(text) && n <= most; i++ {
		switch {
		case quoted && text[i] == '\\':
			i++
		case text[i] == '"':
			quoted = !quoted
		case !quoted && text[i] == '{':
			n++
		}
	}
	return n
}
