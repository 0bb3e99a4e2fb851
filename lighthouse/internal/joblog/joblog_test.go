package joblog_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/lighthouse/internal/joblog"
	"github.com/skerry-ft/skerry/quorum"
)

// A death, as the lines of one job's log at level info.
func TestDeath(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := joblog.New(zerolog.New(&out).Level(zerolog.InfoLevel), &quorum.Quorum{ID: 7})
	died := quorum.Cause{Kind: quorum.CauseLink, Replica: "b", Evidence: "stream broke, accused by a"}
	next := quorum.Quorum{ID: 8, Round: 1, Members: []quorum.Member{{ReplicaID: "a"}}, Participants: []quorum.ReplicaID{"a"}, Reason: "b was lost"}
	again := next
	again.Round = 2
	change := &quorum.Change{Known: 4 * time.Millisecond, Reformed: 11 * time.Millisecond, Resumed: 30 * time.Millisecond, Lost: 10 * time.Millisecond}
	l.Event(quorum.Event{Kind: quorum.EventLost, ReplicaID: "b", QuorumID: 7, Text: died.Evidence, Cause: died})
	l.Event(quorum.Event{Kind: quorum.EventFell, QuorumID: 7, Text: "b was lost", Cause: died})
	waits := quorum.Decision{Reason: quorum.Reason{}}
	l.Waits(waits)                                                                                // at debug
	l.Event(quorum.Event{Kind: quorum.EventFormed, QuorumID: 8, Text: "round 1", Change: change}) // Formed tells it
	l.Formed(next)
	l.Event(quorum.Event{Kind: quorum.EventResumed, QuorumID: 8, Change: change})
	l.Formed(again)
	const want = `{"level":"warn","quorum_id":7,"replica_id":"b","cause":"link","reason":"stream broke, accused by a","message":"lost"}
{"level":"info","quorum_id":7,"replica_id":"b","cause":"link","reason":"b was lost","message":"quorum fell"}
{"level":"info","quorum_id":8,"round":1,"after_quorum_id":7,"members":["a"],"world_size":1,"participants":1,"reason":"b was lost","message":"quorum formed"}
{"level":"info","quorum_id":8,"after_quorum_id":7,"known_ms":4,"reformed_ms":11,"resumed_ms":30,"lost_ms":10,"message":"resumed"}
{"level":"info","quorum_id":8,"round":2,"members":["a"],"world_size":1,"participants":1,"reason":"b was lost","message":"quorum formed"}
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A replica that leaves in order is no warning, and the log of a job that begins anew knows
// no quorum before.
func TestLeft(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := joblog.New(zerolog.New(&out).Level(zerolog.WarnLevel), nil)
	left := quorum.Cause{Kind: quorum.CauseDrained, Replica: "b", Evidence: "left"}
	l.Event(quorum.Event{Kind: quorum.EventLeft, ReplicaID: "b", QuorumID: 7, Cause: left})
	l.Event(quorum.Event{Kind: quorum.EventFell, QuorumID: 7, Cause: left})
	l.Event(quorum.Event{Kind: quorum.EventFinished, QuorumID: 7})
	if out.Len() > 0 {
		t.Errorf("warnings: %s", &out)
	}
	l = joblog.New(zerolog.New(&out), nil)
	l.Formed(quorum.Quorum{ID: 1, Round: 1})
	if bytes.Contains(out.Bytes(), []byte("after")) {
		t.Errorf("the first quorum comes after none: %s", &out)
	}
}

// Why there is no quorum is told when it changes.
func TestWaits(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := joblog.New(zerolog.New(&out), nil)
	for range 3 {
		l.Waits(quorum.Decision{})
	}
	l.Waits(quorum.Decision{Ready: true})
	if n := bytes.Count(out.Bytes(), []byte("no quorum yet")); n != 1 {
		t.Errorf("told %d times, want once: %s", n, &out)
	}
}
