package cli

import (
	"regexp"
	"strings"
)

// noise is what libraries put around a cause, and tells a user nothing, with what is
// left of it.
var noise = []struct {
	what *regexp.Regexp
	left string
}{
	{regexp.MustCompile(`\bquorum: (?:invalid|unknown replica): `), ""},
	{regexp.MustCompile(`\bquorum: (no drain to take back)`), "$1"},
	{regexp.MustCompile(`rpc error: code = \w+ desc = `), ""},
	{regexp.MustCompile(`connection error: desc = "(?:transport: )?`), ""},
	{regexp.MustCompile(`(?:transport: )?(?:Error while dialing|authentication handshake failed): `), ""},
	{regexp.MustCompile(`\b(?:dial|read|write) (?:tcp|unix)\d?(?: [^ ]+->[^ ]+)?(?: [^ ]+:\d+)?: `), ""},
	{regexp.MustCompile(`\blookup ([^ ]+) on [^ ]+:\d+: `), "$1: "}, // whichever server was asked
	{regexp.MustCompile(`\b(?:connect|read|write|listen|bind): (connection refused|connection reset by peer|no route to host|network is unreachable|address already in use)`), "$1"},
}

// Plain is an error's text on one line, without what gRPC and the network's packages
// put around its cause.
func Plain(text string) string {
	for _, n := range noise {
		text = n.what.ReplaceAllString(text, n.left)
	}
	// The quote that closed what began with desc = ".
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Count(line, `"`)%2 == 1 && strings.HasSuffix(line, `"`) {
			text = strings.Replace(text, line, strings.TrimSuffix(line, `"`), 1)
		}
	}
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}
