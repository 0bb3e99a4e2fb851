package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/plan"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// The incarnations of replica-0 in the recorded events, and when the first two were killed.
const (
	firstVictim  = "replica-0:85ebc47b-0dd0-490d-96cd-8539ceca76e1"
	secondVictim = "replica-0:74c3f8b5-b9f8-410a-b0f3-37d387cf18d4"
	firstKill    = 1795848424604
	secondKill   = 1795848429993
	firstQuorum  = 1795848418190
)

// recorded are the events of a demo with two kills.
func recorded(t *testing.T) (events []api.Event) {
	t.Helper()
	text, err := os.ReadFile("testdata/events.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e api.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// world is a job as a drill sees it. Its clock is the lighthouse's, less ahead.
type world struct {
	rec    *Recorder
	at     time.Time
	look   Look
	trains []string
}

// ahead is the lighthouse's clock before that of the drill.
const ahead = 7 * time.Second

func newWorld(startMs int64) *world {
	at := time.UnixMilli(startMs).Add(-ahead)
	w := &world{rec: &Recorder{Bound: 5 * time.Second, Began: at}, at: at, trains: []string{"a", "b", firstVictim}}
	w.look = Look{Quorum: firstQuorum, Committed: firstQuorum, Stands: true, Ahead: ahead}
	w.see()
	return w
}

func (w *world) see() {
	w.look.At, w.look.Trains = w.at, w.trains
	w.rec.Look(w.look)
}

// run lets time pass, in which a step is committed every 50 ms, and looks every 100 ms.
func (w *world) run(d time.Duration) {
	for range d / (100 * time.Millisecond) {
		w.at = w.at.Add(100 * time.Millisecond)
		w.look.Step += 2
		w.see()
	}
}

// to sets the time.
func (w *world) to(lighthouseMs int64) { w.at = time.UnixMilli(lighthouseMs).Add(-ahead) }

// twoKills plays the run of the recorded events.
func twoKills(t *testing.T) Report {
	t.Helper()
	w := newWorld(firstKill - 4000)
	w.run(3900 * time.Millisecond)
	for i, kill := range []struct {
		victim, next string
		at           int64
	}{{firstVictim, secondVictim, firstKill}, {secondVictim, "replica-0:c", secondKill}} {
		w.to(kill.at)
		w.rec.Fault(plan.Fault{Number: i + 1, Kind: plan.Kill, Victim: kill.victim}, "SIGKILL to process 7", w.at)
		w.run(100 * time.Millisecond) // as the lighthouse knew it when the victim died: it shows nothing
		w.trains = []string{"a", "b"}
		w.look.Quorum++
		w.run(100 * time.Millisecond) // a step more, of the quorum before
		w.look.Committed = w.look.Quorum
		w.run(100 * time.Millisecond)
		w.look.Quorum, w.trains = w.look.Quorum+1, []string{"a", "b", kill.next}
		w.run(1700 * time.Millisecond)
	}
	return w.rec.Of(Result{Job: "default", Seed: 4, Ended: EndedDuration, At: w.at, Events: recorded(t)})
}

// TestArithmetic holds a report of recorded events against what can be added up by hand.
func TestArithmetic(t *testing.T) {
	t.Parallel()
	r := twoKills(t)
	if len(r.Faults) != 2 || r.Stalls+r.NotWhole+r.NoEffect+r.Unnamed != 0 || r.Trouble() != "" {
		t.Fatalf("%+v", r)
	}
	for i, f := range r.Faults {
		victim := []string{firstVictim, secondVictim}[i]
		cost := []api.Cost{{KnownMs: 0.224, ReformedMs: 4.214, ResumedMs: 26.416}, {KnownMs: 0.1, ReformedMs: 3.534, ResumedMs: 38.154}}[i]
		if f.ResumedMs != 300 || f.WholeMs != 400 || f.Victim != victim || f.Stall {
			t.Errorf("fault %d: %+v, want a step after 300 ms and all replicas after 400", i+1, f)
		}
		if f.Told == nil || f.Told.Cost != cost || !f.Told.Named || f.Told.Kind != "link" || f.Told.Culprits[0] != victim {
			t.Errorf("fault %d: told %+v, want %+v of %s", i+1, f.Told, cost, victim)
		}
	}
	if want := 3.437 + 13.237; math.Abs(r.LostMs-want) > 1e-6 {
		t.Errorf("%v ms lost, want %v", r.LostMs, want)
	}
	if r.StepMs != 50 || r.Steps != 2*(39+20+20) || r.ResumedMs != (Spread{300, 300}) {
		t.Errorf("%d steps of %v ms, resumed after %v", r.Steps, r.StepMs, r.ResumedMs)
	}
	took := float64(secondKill-firstKill) + 4000 + 2000 // from the beginning to the last look
	if want := 50 * float64(r.Steps) / took; math.Abs(r.Goodput-want) > 1e-6 {
		t.Errorf("goodput %v, want %v", r.Goodput, want)
	}
}

// TestOldCommitsShowNothing: what was as good as committed when the fault came does not end
// an outage, in a quorum that stays either.
func TestOldCommitsShowNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(firstKill)
	stop := w.rec.Fault(plan.Fault{Number: 1, Kind: plan.Stop, Victim: "a", For: 300 * time.Millisecond}, "", w.at)
	w.see()
	w.look.Step++
	w.see()
	if !stop.Resumed.IsZero() {
		t.Error("one step in the same quorum ended it")
	}
	w.look.Step++
	w.see()
	if stop.Resumed.IsZero() || !stop.Open() {
		t.Errorf("%+v, want that it goes on, and that the stop lasts", stop)
	}
	w.run(400 * time.Millisecond)
	if stop.Open() {
		t.Error("it is over, and still open")
	}
	kill := w.rec.Fault(plan.Fault{Number: 2, Kind: plan.Kill, Victim: "a"}, "", w.at)
	w.run(time.Second)
	if !kill.Resumed.IsZero() {
		t.Error("steps with the victim ended a kill")
	}
	w.run(5 * time.Second)
	if r := w.rec.Of(Result{Ended: EndedDuration, At: w.at}); r.NoEffect != 1 || r.NotWhole != 0 || kill.Open() {
		t.Errorf("%+v, want a fault without effect", r)
	}
}

// TestNotWhole: a replica that does not come back ends the wait after the bound, and is told.
func TestNotWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(firstKill)
	w.run(time.Second)
	o := w.rec.Fault(plan.Fault{Number: 1, Kind: plan.Kill, Victim: firstVictim}, "", w.at)
	w.look.Quorum, w.look.Committed, w.trains = firstQuorum+1, firstQuorum+1, []string{"a", "b"}
	w.run(4 * time.Second)
	if !o.Open() {
		t.Error("it was given up before the bound")
	}
	w.run(time.Second)
	if r := w.rec.Of(Result{Ended: EndedDuration, At: w.at}); o.Open() || r.NotWhole != 1 || r.Stalls != 0 || w.rec.Stalled(w.at) {
		t.Errorf("%+v", r)
	}
}

// TestStall: no step within the bound is one, whether the job is seen or not.
func TestStall(t *testing.T) {
	t.Parallel()
	var none Recorder
	if none.Stalled(time.Now()) {
		t.Error("a run that has not begun has stalled")
	}
	w := newWorld(firstKill)
	w.run(3 * time.Second)
	w.rec.Fault(plan.Fault{Number: 1, Kind: plan.Kill, Victim: firstVictim}, "", w.at)
	began := w.at
	w.look.Stands = false
	for range 49 {
		w.at = w.at.Add(100 * time.Millisecond)
		w.see()
	}
	if w.rec.Stalled(w.at) || !w.rec.Stalled(began.Add(5*time.Second)) {
		t.Error("want a stall from 5 s on")
	}
	w.at = began.Add(5 * time.Second)
	r := w.rec.Of(Result{Ended: EndedStall, Why: "no step", At: w.at})
	if r.Stalls != 1 || !r.Faults[0].Stall || r.Trouble() != "no step" || r.Goodput > 0.4 {
		t.Errorf("%+v", r)
	}
	var text strings.Builder
	if err := r.Write(&text); err != nil || !strings.Contains(text.String(), "\n1 stall · ended by the stall\n") {
		t.Errorf("%v %s", err, &text)
	}
}

// TestStepTimeIsExact: beats and looks are as long as a step, and still its time is found, and
// with it what twelve faults cost.
func TestStepTimeIsExact(t *testing.T) {
	t.Parallel()
	const stepTime, beat, every, lost = 150 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 600 * time.Millisecond
	w := newWorld(firstKill)
	began, trained := w.at, time.Duration(0)
	for at := time.Duration(0); at < 2*time.Minute; at += every {
		if at%(10*time.Second) == 5*time.Second {
			w.rec.Fault(plan.Fault{Number: len(w.rec.Outages) + 1, Kind: plan.Link}, "", w.at)
			w.look.Quorum, w.look.Committed = w.look.Quorum+1, w.look.Quorum
			trained -= lost
		}
		w.at = began.Add(at)
		if step := int64((trained + at.Truncate(beat)) / stepTime); step > w.look.Step {
			w.look.Step, w.look.Committed = step, w.look.Quorum
		}
		w.see()
	}
	r := w.rec.Of(Result{Ended: EndedDuration, At: w.at})
	if want := 1 - 12*lost.Seconds()/120; math.Abs(r.StepMs-150) > 2 || math.Abs(r.Goodput-want) > 0.015 {
		t.Errorf("steps of %v ms, goodput %v, want 150 and %v", r.StepMs, r.Goodput, want)
	}
}

// TestManyLooks: a drawing has no more points than it is bound to, however long the run, and
// shows the fall of a quorum for all that.
func TestManyLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(firstKill)
	w.run(20 * time.Minute)
	w.trains = w.trains[:2]
	w.run(100 * time.Millisecond)
	w.run(20 * time.Minute)
	r := w.rec.Of(Result{Ended: EndedDuration, At: w.at})
	fell := 0
	for _, p := range r.Timeline {
		if p.Trains == 2 {
			fell++
		}
	}
	if n := len(r.Timeline); n > maxPoints || n < maxPoints/4 || fell == 0 {
		t.Errorf("%d points, %d of two replicas", n, fell)
	}
}

// TestText: people read what happened.
func TestText(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	if err := twoKills(t).Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"job default, seed 4: 2 faults in 11s (2 kill)", "158 steps of 50 ms, goodput ", "· 17 ms lost, as the lighthouse counts",
		"kill replica-0  300 ms      400 ms  0.2 ms       4.2 ms  26 ms    -     replica-0 died: link cut, seen by replica-1\n",
		"\nno stall · its time is over\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("want %q in:\n%s", want, &text)
		}
	}
}

// TestSVG: the drawing is well-formed, has each fault, and shows hostile names as text.
func TestSVG(t *testing.T) {
	t.Parallel()
	r := twoKills(t)
	r.Job = "<script>alert(1)</script>\x1b"
	r.Faults[0].How = `"><b>&`
	svg := r.SVG()
	d := xml.NewDecoder(strings.NewReader(svg))
	count := make(map[string]int)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok {
			count[e.Name.Local]++
		}
	}
	if count["g"] != 2 || count["path"] != 2 || count["script"]+count["b"] != 0 || count["svg"] != 1 {
		t.Errorf("elements %v in\n%s", count, svg)
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error("a number is none")
	}
	for i, empty := range []Report{{}, {WallMs: 10, Timeline: []Point{{AtMs: 5, Step: 3, Trains: 1}}}, {StartedMs: 1, WallMs: 1e10}} {
		if text := empty.SVG(); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("report %d: %s", i, text)
		}
	}
}

// TestJSONHasLists: programs find lists, not null.
func TestJSONHasLists(t *testing.T) {
	t.Parallel()
	var none Recorder
	text, err := json.Marshal(none.Of(Result{}))
	if err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%s, %v", text, err)
	}
	if text := fmt.Sprint(none.Open()); text != "[]" {
		t.Errorf("%s is open", text)
	}
}
