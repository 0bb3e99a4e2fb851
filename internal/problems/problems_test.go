package problems_test

import (
	"errors"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/problems"
)

// Each problem names its field, the value and the bound; what is within bounds is none.
func TestProblems(t *testing.T) {
	cause := errors.New("it does not parse")
	l := problems.List{Prefix: "Config."}
	problems.Within(&l, "Streams", 9, 1, 8)
	problems.Within(&l, "Streams", 8, 1, 8)
	problems.Within(&l, "Streams", 1, 1, 8)
	problems.Within(&l, "Timeout", time.Millisecond, time.Second, time.Minute)
	problems.NotNegative(&l, "Pause", -time.Second)
	problems.NotNegative(&l, "Pause", 0)
	l.Want(false, "Listen", "here", "host:port: %w", cause)
	l.Want(true, "Listen", "h:1", "host:port")
	l.Want(false, "Servers", []string{"", "a b"}, "one server")
	l.Short("Token", 9, 8)
	l.Short("Token", 8, 8)
	l.About("Job", cause)
	l.About("Job", nil)
	l.Add(nil)
	const want = `Config.Streams = 9, want 1 to 8
Config.Timeout = 1ms, want 1s to 1m0s
Config.Pause = -1s, want 0 or more
Config.Listen = "here", want host:port: it does not parse
Config.Servers = ["" "a b"], want one server
Config.Token has 9 bytes, want at most 8
Config.Job: it does not parse`
	if err := l.Err(); err == nil || err.Error() != want || !errors.Is(err, cause) {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestNoProblem(t *testing.T) {
	var l problems.List
	l.Add(nil, nil)
	if err := l.Err(); err != nil {
		t.Errorf("%v, want nil", err)
	}
}
