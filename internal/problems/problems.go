// Package problems collects what is wrong with a configuration: all of it at once, each
// as "Field = value, want bound", so that one look mends all. It starts no goroutines.
package problems

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
)

// List holds problems in the order in which they were found. The zero value is an
// empty one; it is owned by one goroutine.
type List struct {
	Prefix string // before every field

	all []error
}

// Want adds a problem unless ok: the field, its value, and the bound, which args fill
// in. A string is shown in quotes.
func (l *List) Want(ok bool, field string, value any, bound string, args ...any) {
	if ok {
		return
	}
	switch v := value.(type) {
	case string:
		value = strconv.Quote(v)
	case []string: // or one with an empty text would look like one without any
		value = fmt.Sprintf("%q", v)
	}
	l.Add(fmt.Errorf("%s%s = %v, want %w", l.Prefix, field, value, fmt.Errorf(bound, args...)))
}

// Short wants that a text, or other bytes, of a field are no more than so many.
func (l *List) Short(field string, n, most int) {
	if n > most {
		l.Add(fmt.Errorf("%s%s has %d bytes, want at most %d", l.Prefix, field, n, most))
	}
}

// Add adds problems that others found; nil is none.
func (l *List) Add(errs ...error) { l.all = append(l.all, errs...) }

// About is Add of err, if there is one, as a problem of a field.
func (l *List) About(field string, err error) {
	if err != nil {
		l.Add(fmt.Errorf("%s%s: %w", l.Prefix, field, err))
	}
}

// Err returns all problems, joined; nil if there are none.
func (l *List) Err() error { return errors.Join(l.all...) }

// Within wants a value from least to most.
func Within[T cmp.Ordered](l *List, field string, value, least, most T) {
	l.Want(least <= value && value <= most, field, value, "%v to %v", least, most)
}

// NotNegative wants a value of 0 or more.
func NotNegative[T cmp.Ordered](l *List, field string, value T) {
	var zero T
	l.Want(value >= zero, field, value, "0 or more")
}
