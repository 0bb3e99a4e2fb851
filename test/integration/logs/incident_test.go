package logs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// line is one of a log for people: "15:04:05.000 WRN message key=value".
type line struct {
	of    string // the program
	at    time.Duration
	level string
	text  string // message and fields
}

func (l line) String() string { return fmt.Sprintf("%v %s %s %s", l.at, l.of, l.level, l.text) }

var lineForm = regexp.MustCompile(`(?m)^(\d\d:\d\d:\d\d\.\d{3}) ([A-Z]{3}) (.*)$`)

// run is a lighthouse and trainers, as an operator starts them.
type run struct {
	t        *testing.T
	trainer  string // its path
	addr     string
	programs map[string]*testkit.Program
}

func (r *run) start(name string, args ...string) *testkit.Program {
	r.t.Helper()
	p := testkit.Start(r.t, name, nil, args...)
	r.programs[name] = p
	return p
}

func (r *run) train(name string, index int) *testkit.Program {
	r.t.Helper()
	return r.start(name, r.trainer, "-lighthouse", r.addr, "-index", fmt.Sprint(index), "-replicas", "3",
		"-steps", "1000000", "-step-time", "20ms", "-verbose")
}

// merged is what all programs have logged, in the order of its times. Of equal times the
// programs' order is that of their names.
func (r *run) merged() []line {
	r.t.Helper()
	var all []line
	for name, p := range r.programs {
		for _, m := range lineForm.FindAllStringSubmatch(p.String(), -1) {
			at, err := time.Parse("15:04:05.000", m[1])
			if err != nil {
				r.t.Fatal(err)
			}
			all = append(all, line{of: name, at: at.Sub(at.Truncate(24 * time.Hour)), level: m[2], text: m[3]})
		}
	}
	slices.SortFunc(all, func(a, b line) int { return strings.Compare(a.of, b.of) })
	slices.SortStableFunc(all, func(a, b line) int { return int(a.at - b.at) })
	if n := len(all); n > 0 && all[n-1].at-all[0].at > 12*time.Hour { // midnight is between
		for i := range all {
			if all[i].at < 12*time.Hour {
				all[i].at += 24 * time.Hour
			}
		}
		slices.SortStableFunc(all, func(a, b line) int { return int(a.at - b.at) })
	}
	return all
}

// of are the lines among all whose text begins with message and has all that is wanted.
func of(all []line, message string, wanted ...string) []line {
	var found []line
	for _, l := range all {
		if strings.HasPrefix(l.text, message+" ") &&
			!slices.ContainsFunc(wanted, func(want string) bool { return !strings.Contains(l.text, want) }) {
			found = append(found, l)
		}
	}
	return found
}

// show is lines for people.
func show(all []line) string {
	var s strings.Builder
	for _, l := range all {
		fmt.Fprintln(&s, l)
	}
	return s.String()
}

// formedWithout is the quorum that comes after the death, and which one that ended.
var formedWithout = regexp.MustCompile(`quorum formed .*\bafter_quorum_id=(\d+) .*out: replica-1:`)

// TestIncidentByQuorumID: a trainer is killed. What lighthouse and trainers log, put
// together by its times and searched for one quorum id, tells who died, how that was
// known, what came next, and when training went on; each transition once in each log. Then
// the trainer comes back and another one leaves in order, which is no warning anywhere.
func TestIncidentByQuorumID(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the programs")
	}
	t.Parallel()
	bin := t.TempDir()
	r := &run{t: t, trainer: testkit.Build(t, bin, "examples/digits/trainer"), addr: portlease.ForTest(t, 1)[0],
		programs: make(map[string]*testkit.Program)}
	server := r.start("lighthouse", testkit.Build(t, bin, "cmd/lighthouse"), "--bind", r.addr,
		// A machine that is busy is none of the incidents here.
		"--heartbeat-timeout", "20s", "--suspect-after", "10s", "--grace", "20s", "--join-timeout", "5s")
	server.Says("leadership gained", 0)
	dies, stays, leaves := r.train("dies", 1), r.train("stays", 0), r.train("leaves", 2)
	server.Says("world_size=3", 0)
	for _, p := range []*testkit.Program{dies, stays, leaves} {
		p.Says("step 50: ", 0)
	}
	from := map[*testkit.Program]int{stays: stays.Len(), leaves: leaves.Len()}
	killed := server.Len()
	dies.Kill()
	for p, at := range from {
		p.Says("training goes on", at)
	}
	server.Says("resumed after_quorum_id=", killed)
	// Which quorum the death ended is read after it: a busy machine may have formed another
	// one of the three before.
	next := formedWithout.FindStringSubmatch(server.String()[killed:])
	if next == nil {
		t.Fatalf("no quorum without replica-1:\n%s", server)
	}
	fell := next[1]
	server.Says("resumed after_quorum_id="+fell, killed)
	ended := r.checkDeath(fell)

	at := server.Len()
	again := r.train("again", 1)
	at = server.Says("world_size=3", at)
	again.Says(": loss ", 0)
	leaves.Signal(syscall.SIGTERM)
	if status := leaves.Exits(); status != 0 {
		t.Errorf("it leaves with status %d:\n%s", status, leaves)
	}
	server.Says("world_size=2", at)
	stays.Says(": loss ", stays.Len())
	later := slices.DeleteFunc(r.merged(), func(l line) bool { return l.at <= ended })
	for _, l := range later {
		if l.level == "INF" || strings.HasPrefix(l.text, "process stalled") { // a busy machine
			continue
		}
		t.Errorf("a trainer comes back, and one leaves in order: %v", l)
	}
	if found := of(later, "left", "replica_id=replica-2:"); len(found) != 1 {
		t.Errorf("%d lines say that replica-2 left, want 1:\n%s", len(found), show(later))
	}
}

// checkDeath reads the story of the death of replica-1 in a quorum, and returns when it
// ends.
func (r *run) checkDeath(fell string) time.Duration {
	r.t.Helper()
	all := r.merged()
	story := slices.DeleteFunc(slices.Clone(all), func(l line) bool { return !strings.Contains(l.text, fell) })
	first := slices.IndexFunc(story, func(l line) bool { return l.level == "WRN" })
	if first < 0 {
		r.t.Fatalf("no warning of quorum %s:\n%s", fell, show(all))
	}
	story = story[first:]
	for _, want := range []struct {
		message string
		in      []string
		level   string
		lines   int // in all programs
	}{
		{"lost", []string{"replica_id=replica-1:"}, "WRN", 1}, // the lighthouse
		{"quorum fell", []string{"component=manager"}, "WRN", 2},
		{"quorum formed", []string{"after_quorum_id=" + fell, `reason="replica-1:`, "out: replica-1:"}, "INF", 3}, // not who joined first
		{"resumed", []string{"after_quorum_id=" + fell, "known_ms=", "reformed_ms=", "lost_ms="}, "INF", 1},
		{"training goes on", []string{"after_quorum_id=" + fell, "discarded=", "elapsed_ms="}, "INF", 2},
	} {
		found := of(story, want.message, want.in...)
		if len(found) != want.lines || slices.ContainsFunc(found, func(l line) bool { return l.level != want.level }) {
			r.t.Fatalf("%q with %q: %d lines, want %d at %s:\n%s", want.message, want.in, len(found), want.lines, want.level, show(story))
		}
	}
	for _, innocent := range []string{"replica-0:", "replica-2:"} {
		for _, message := range []string{"lost", "suspect"} {
			if found := of(story, message, "replica_id="+innocent); found != nil {
				r.t.Errorf("an innocent is told as %s:\n%s", message, show(found))
			}
		}
		if found := append(of(story, "peer accused", "peer="+innocent), of(story, "member lost", "peer="+innocent)...); found != nil {
			r.t.Errorf("an innocent is accused:\n%s", show(found))
		}
	}
	if of(story, "peer accused", "peer=replica-1:", "peer lost") == nil || of(story, "quorum fell", "peer rank 1 (replica-1:") == nil {
		r.t.Fatalf("who saw the link break is not told:\n%s", show(story))
	}
	// Cause before effect, across processes: their clock is one.
	order := []line{of(story, "peer accused", "peer=replica-1:")[0], of(story, "quorum formed")[0], of(story, "training goes on")[0]}
	if !slices.IsSortedFunc(order, func(a, b line) int { return int(a.at - b.at) }) {
		r.t.Errorf("order:\n%s\nin:\n%s", show(order), show(story))
	}
	return story[len(story)-1].at
}
