package deploy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// matcher is one condition on a label.
type matcher struct{ label, op, value string }

// selector is what a query asks for: a name, and conditions on labels.
type selector struct {
	name     string
	matchers []matcher
}

func (s selector) String() string { return fmt.Sprintf("%s%v", s.name, s.matchers) }

// A token of PromQL: a selector's braces, a range, a string, a list of labels, a name that
// is called, a name. Numbers, durations and operators are passed over.
var promqlToken = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|"[^"]*"|'[^']*'` +
	`|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)|[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(|[0-9][0-9a-z.]*|[a-zA-Z_:][a-zA-Z0-9_:]*`)

var promqlMatcher = regexp.MustCompile(`([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"([^"]*)"`)

// keywords, and the names of aggregations, stand where a name could.
var keywords = []string{"sum", "max", "min", "avg", "count", "quantile", "and", "or", "unless", "offset", "bool", "group_left", "group_right", "by", "on", "without", "ignoring"}

// selectors are those of a query. It knows as much of PromQL as deploy/ uses: the parser
// of Prometheus would bring its server's dependencies.
func selectors(query string) (all []selector) {
	name := false // the last token was a selector's name
	for _, token := range promqlToken.FindAllString(query, -1) {
		switch first := token[0]; {
		case first == '{' && name:
			for _, m := range promqlMatcher.FindAllStringSubmatch(token, -1) {
				last := &all[len(all)-1]
				last.matchers = append(last.matchers, matcher{m[1], m[2], m[3]})
			}
			name = false
		case strings.ContainsRune(`{["'`, rune(first)), first >= '0' && first <= '9',
			strings.HasSuffix(token, "("), strings.HasSuffix(token, ")"), slices.Contains(keywords, token):
			name = false
		default:
			all = append(all, selector{name: token})
			name = true
		}
	}
	return all
}

// labels of a series, and its name under "".
type labels map[string]string

// matches says whether a series is one that s selects.
func (s selector) matches(of labels) bool {
	if of[""] != s.name {
		return false
	}
	for _, m := range s.matchers {
		value := of[m.label]
		whole := regexp.MustCompile("^(?:" + m.value + ")$")
		ok := map[string]bool{
			"=": value == m.value, "!=": value != m.value, "=~": whole.MatchString(value), "!~": !whole.MatchString(value),
		}[m.op]
		if !ok {
			return false
		}
	}
	return true
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	query := `histogram_quantile(0.99, sum by (job, le) (rate(a_bucket{job=~"$job", kind!="x"}[5m]))) > 1e3
		and on (job) max by(job) (b offset 15m) == 1 or (c:d:rate10m{} * 2 < 7 * 86400)`
	got := fmt.Sprint(selectors(query))
	if want := `[a_bucket[{job =~ $job} {kind != x}] b[] c:d:rate10m[]]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s := selectors(`a{x="1",y!~"b|c"}`)[0]
	for text, want := range map[string]labels{
		"true": {"": "a", "x": "1", "y": "d"}, "false": {"": "a", "x": "1", "y": "b"},
	} {
		if got := fmt.Sprint(s.matches(want)); got != text {
			t.Errorf("%v selects %v: %s", s, want, got)
		}
	}
}
