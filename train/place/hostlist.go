package place

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ExpandHosts is the hosts of a list as Slurm writes it, in its order: "gpu[01-03,7],login"
// is gpu01, gpu02, gpu03, gpu7 and login. Numbers are as wide as the first of their range; a
// name may have several brackets, of which the last counts fastest, and text behind them. A
// list has at least one host, at most MaxWorldSize, and MaxTextBytes written and expanded.
func ExpandHosts(list string) ([]string, error) {
	if len(list) > MaxTextBytes {
		return nil, fmt.Errorf("a list of hosts of %d bytes, want at most %d", len(list), MaxTextBytes)
	}
	var x expansion
	for rest, more := list, true; more; {
		var item string
		var err error
		if item, rest, more, err = cutItem(rest); err != nil {
			return nil, err
		}
		if err := x.item(item); err != nil {
			return nil, fmt.Errorf("hosts %q: %w", clip(item), err)
		}
	}
	return x.hosts, nil
}

// cutItem cuts off what stands before the first comma outside brackets.
func cutItem(list string) (item, rest string, more bool, err error) {
	inside := false
	for i, c := range []byte(list) {
		switch {
		case c == '[' && inside, c == ']' && !inside:
			return "", "", false, fmt.Errorf("a list of hosts with %q out of place at byte %d", c, i)
		case c == '[' || c == ']':
			inside = !inside
		case c == ',' && !inside:
			return list[:i], list[i+1:], true, nil
		}
	}
	if inside {
		return "", "", false, errors.New("a list of hosts with a bracket that is not closed")
	}
	return list, "", false, nil
}

// expansion collects hosts within bounds.
type expansion struct {
	hosts []string
	bytes int
}

// span is the numbers from lo to hi, at least width digits wide.
type span struct{ lo, hi, width int }

// item adds the hosts of one item, whose brackets are balanced.
func (x *expansion) item(item string) error {
	var texts []string // before, between and behind the brackets
	var brackets [][]span
	count := 1
	for {
		before, rest, found := strings.Cut(item, "[")
		texts = append(texts, before)
		if !found {
			break
		}
		inside, behind, _ := strings.Cut(rest, "]")
		spans, n, err := parseSpans(inside)
		if err != nil {
			return err
		}
		if count *= n; count > MaxWorldSize {
			return fmt.Errorf("more than %d of them", MaxWorldSize)
		}
		brackets, item = append(brackets, spans), behind
	}
	return x.names("", texts, brackets)
}

// names adds what begins with prefix, for each number of the first brackets.
func (x *expansion) names(prefix string, texts []string, brackets [][]span) error {
	prefix += texts[0]
	if len(brackets) == 0 {
		return x.add(prefix)
	}
	for _, s := range brackets[0] {
		for n := s.lo; n <= s.hi; n++ {
			if err := x.names(fmt.Sprintf("%s%0*d", prefix, s.width, n), texts[1:], brackets[1:]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *expansion) add(host string) error {
	x.bytes += len(host)
	switch {
	case !goodHost(host):
		return fmt.Errorf("%q is no name of a host", clip(host))
	case len(x.hosts) == MaxWorldSize:
		return fmt.Errorf("more than %d in all", MaxWorldSize)
	case x.bytes > MaxTextBytes:
		return fmt.Errorf("more than %d bytes of names", MaxTextBytes)
	}
	x.hosts = append(x.hosts, host)
	return nil
}

// parseSpans reads "01-03,7", and counts its numbers.
func parseSpans(text string) (spans []span, count int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		lo, err1 := strconv.ParseUint(from, 10, 31)
		hi, err2 := strconv.ParseUint(to, 10, 31)
		if err1 != nil || err2 != nil || hi < lo || len(from) > maxHostBytes {
			return nil, 0, fmt.Errorf("%q in brackets, want a number or a range of them, like 01-03", clip(part))
		}
		if count += int(hi-lo) + 1; count > MaxWorldSize {
			return nil, 0, fmt.Errorf("more than %d numbers in brackets", MaxWorldSize)
		}
		spans = append(spans, span{int(lo), int(hi), len(from)})
	}
	return spans, count, nil
}
