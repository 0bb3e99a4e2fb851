package burst

import (
	"fmt"
	"strings"
)

// MaxErrorBytes bounds the text of an error that Short makes.
const MaxErrorBytes = 512

// tailBytes is how much of it is the end of the text, where causes stand.
const tailBytes = 128

// Short is err with a text of MaxErrorBytes at most, for errors that repeat what a
// stranger said: that of a certificate which cannot be parsed holds parts of it, twice.
// Of a longer text the begin and the end are left, with how much is missing. errors.Is
// and errors.As see all of err. nil stays nil.
func Short(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if len(text) <= MaxErrorBytes {
		return err
	}
	note := fmt.Sprintf(" … (%d bytes in all) … ", len(text))
	head := text[:MaxErrorBytes-tailBytes-len(note)]
	tail := text[len(text)-tailBytes:]
	return &short{strings.ToValidUTF8(head, "") + note + strings.ToValidUTF8(tail, ""), err}
}

type short struct {
	text string
	err  error
}

func (s *short) Error() string { return s.text }
func (s *short) Unwrap() error { return s.err }
