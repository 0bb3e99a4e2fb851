package wire

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/skerry-ft/skerry/internal/printable"
	"github.com/skerry-ft/skerry/quorum"
)

// FieldError says that a peer sent a value out of bounds. It matches
// quorum.ErrInvalid.
type FieldError struct {
	Field string // path of the field: "join.member.replica_id"
	Value string // its value, cut to maxShownBytes
	Bound string // what is allowed
}

// Error names the field, its value and the bound.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s = %s, want %s", e.Field, e.Value, e.Bound)
}

// Is matches quorum.ErrInvalid.
func (e *FieldError) Is(target error) bool { return target == quorum.ErrInvalid }

// maxShownBytes bounds how much of a refused value an error repeats.
const maxShownBytes = 64

// check walks a message and keeps the first violation. It is owned by one
// call of one conversion.
type check struct {
	path []segment
	err  error // nil or a *FieldError
}

// segment is one part of a field's path. A path is rendered only when
// something is refused, so that a good message costs nothing.
type segment struct {
	name  string
	index int // -1: not an element of a list
}

// result returns the violation, or nil.
func (c *check) result() error { return c.err }

// whole converts what is not part of a message that is being checked.
func whole[P, T any](field string, p P, convert func(c *check, field string, p P) T) (T, error) {
	var c check
	r := convert(&c, field, p)
	return r, c.result()
}

// enter and leave bracket the fields of a nested message.
func (c *check) enter(name string)          { c.path = append(c.path, segment{name, -1}) }
func (c *check) element(name string, i int) { c.path = append(c.path, segment{name, i}) }
func (c *check) leave()                     { c.path = c.path[:len(c.path)-1] }
func (c *check) missing(field string)       { c.fail(field, "nothing", "a message") }
func (c *check) failed() bool               { return c.err != nil }
func (c *check) bad(field, value string, bound string, args ...any) {
	c.fail(field, strconv.Quote(printable.Cut(value, maxShownBytes)), fmt.Sprintf(bound, args...))
}

// fail keeps the first violation.
func (c *check) fail(field, value, bound string) {
	if c.err != nil {
		return
	}
	var b strings.Builder
	for _, s := range c.path {
		b.WriteString(s.name)
		if s.index >= 0 {
			fmt.Fprintf(&b, "[%d]", s.index)
		}
		b.WriteByte('.')
	}
	b.WriteString(field)
	c.err = &FieldError{Field: b.String(), Value: value, Bound: bound}
}

// text checks a string of at most limit bytes that a person may read: UTF-8,
// no control characters, so that it can be logged and shown as it is.
func (c *check) text(field, s string, limit int) string {
	switch {
	case len(s) > limit:
		c.bad(field, s, "at most %d bytes, not %d", limit, len(s))
	case !utf8.ValidString(s):
		c.bad(field, s, "valid UTF-8")
	case strings.IndexFunc(s, isControl) >= 0:
		c.bad(field, s, "no control characters")
	default:
		return s
	}
	return ""
}

// data checks a string that machines read: UTF-8, any characters.
func (c *check) data(field, s string, limit int) string {
	if len(s) <= limit && utf8.ValidString(s) {
		return s
	}
	c.bad(field, s, "valid UTF-8 of at most %d bytes, not %d bytes", limit, len(s))
	return ""
}

// id checks a replica id that must be there, of a replica that was let in before:
// a ledger, or a lighthouse of an older release, may know one that newID refuses.
func (c *check) id(field, s string) quorum.ReplicaID {
	if s == "" {
		c.bad(field, s, "1 to %d bytes", MaxReplicaIDBytes)
		return ""
	}
	return quorum.ReplicaID(c.text(field, s, MaxReplicaIDBytes))
}

// newID checks the id that a replica comes with. Beside what id asks, it is one that
// people can read, tell apart and type: no mark that turns the direction of writing
// or takes no room, no space but the plain one, and not blank, neither as a whole nor
// in its name, which is what stands before ":".
func (c *check) newID(field, s string) quorum.ReplicaID {
	id := c.id(field, s)
	name, _, _ := strings.Cut(string(id), ":")
	switch i := strings.IndexFunc(string(id), isUnseen); {
	case id == "":
	case i >= 0:
		r, _ := utf8.DecodeRuneInString(s[i:])
		c.bad(field, s, "no invisible characters, and of the spaces the plain one only; byte %d begins %U", i, r)
	case isBlank(string(id)), name != "" && isBlank(name):
		c.bad(field, s, "a name with at least one visible character")
	default:
		return id
	}
	return ""
}

// number checks lo <= v <= hi.
func (c *check) number(field string, v, lo, hi int64) int64 {
	if v < lo || v > hi {
		c.fail(field, strconv.FormatInt(v, 10), fmt.Sprintf("%d to %d", lo, hi))
		return lo
	}
	return v
}

// rising checks a step, id or round.
func (c *check) rising(field string, v int64) int64 { return c.number(field, v, 0, MaxNumber) }

// counter checks an unsigned number that rises.
func (c *check) counter(field string, v uint64) uint64 {
	if v > MaxNumber {
		c.fail(field, strconv.FormatUint(v, 10), fmt.Sprintf("at most %d", int64(MaxNumber)))
		return 0
	}
	return v
}

// count checks the length of a list and says whether it may be walked.
func (c *check) count(field string, n, limit int) bool {
	if n > limit {
		c.fail(field, strconv.Itoa(n)+" elements", fmt.Sprintf("at most %d", limit))
		return false
	}
	return true
}

// list converts a list of at most most elements; the fields that convert checks stand
// under the element's place in it. It ends at the first violation, with nil.
func list[P, R any](c *check, field string, ps []P, most int, convert func(p P) R) []R {
	if len(ps) == 0 || !c.count(field, len(ps), most) {
		return nil
	}
	r := make([]R, len(ps))
	for i, p := range ps {
		c.element(field, i)
		r[i] = convert(p)
		c.leave()
		if c.failed() {
			return nil
		}
	}
	return r
}

// listToProto converts a list that has been bounded; an empty one is nil.
func listToProto[T, P any](ts []T, convert func(T) P) []P {
	if len(ts) == 0 {
		return nil
	}
	r := make([]P, len(ts))
	for i, t := range ts {
		r[i] = convert(t)
	}
	return r
}

// enum checks that an enum is one of 0 to last.
func (c *check) enum(field string, v, last int32) uint8 {
	return uint8(c.number(field, int64(v), 0, int64(last)))
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) }

// isUnseen says that a rune shows as nothing, changes how its neighbours are shown, or
// looks like a plain space and is none: Unicode's Cf, Zs, Zl and Zp.
func isUnseen(r rune) bool {
	return r != ' ' && unicode.In(r, unicode.Cf, unicode.Z)
}

// isBlank says that nothing of s is seen.
func isBlank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		const blankBraille = 0x2800 // a symbol by its category
		return r != ' ' && r != blankBraille &&
			!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
	}) < 0
}

// Text makes s fit to be sent as a text for people: valid UTF-8, what is not seen,
// control characters above all, as blanks, at most MaxTextBytes.
func Text(s string) string { return legible(s, MaxTextBytes) }

// Evidence makes s fit to be sent as an accusation's evidence.
func Evidence(s string) string { return legible(s, MaxEvidenceBytes) }

// legible cuts before it looks, so that a huge text costs no more than a long one, and
// again after it: what replaces broken UTF-8 is longer.
func legible(s string, most int) string {
	s = strings.ToValidUTF8(printable.Cut(s, most), "\uFFFD")
	return printable.Cut(strings.Map(func(r rune) rune {
		if isControl(r) || isUnseen(r) {
			return ' '
		}
		return r
	}, s), most)
}

// CheckJob returns name, or DefaultJob for the empty name. A job's name is a
// part of store prefixes and URLs: letters, digits, '.', '_' and '-' only.
func CheckJob(name string) (string, error) {
	var c check
	if job := c.job("job", name); !c.failed() {
		return job, nil
	}
	return "", c.result()
}

func (c *check) job(field, name string) string {
	if name == "" {
		return DefaultJob
	}
	if len(name) > MaxJobBytes {
		c.bad(field, name, "at most %d letters, digits, '.', '_' or '-', not %d bytes", MaxJobBytes, len(name))
		return ""
	}
	if strings.IndexFunc(name, func(r rune) bool { return !isJobRune(r) }) >= 0 {
		c.bad(field, name, "at most %d letters, digits, '.', '_' or '-'", MaxJobBytes)
		return ""
	}
	return name
}

func isJobRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		r == '.' || r == '_' || r == '-'
}

// CheckReplicaID checks the id that a replica comes with.
func CheckReplicaID(id string) (quorum.ReplicaID, error) {
	return whole("replica_id", id, (*check).newID)
}

// CheckKnownID checks the id by which an operator names a replica that is there
// already. A ledger may hold one that CheckReplicaID refuses today, and a job must
// be able to go on without it.
func CheckKnownID(id string) (quorum.ReplicaID, error) {
	return whole("replica_id", id, (*check).id)
}
