package manager

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/manager/internal/state"
)

// logged keeps what the managers of a world log, at a level and above.
type logged struct {
	mu  sync.Mutex
	out bytes.Buffer
}

// logLine is a line with the fields that a search goes by.
type logLine struct {
	Name, Level, Message, Reason, Error string
	QuorumID                            int64 `json:"quorum_id"`
	After                               int64 `json:"after_quorum_id"`
	Step                                int64
	Discarded                           int
}

func logsOf(w *world, level zerolog.Level) *logged {
	l := &logged{}
	w.logs = zerolog.New(l).Level(level)
	return l
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// lines are those of one replica so far that are about a quorum: of it, or after it; 0 is any.
func (l *logged) lines(t *testing.T, name string, quorumID int64) []logLine {
	t.Helper()
	var found []logLine
	for text := range strings.Lines(l.String()) {
		var line logLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if line.Name == name && (quorumID == 0 || line.QuorumID == quorumID || line.After == quorumID) {
			found = append(found, line)
		}
	}
	return found
}

// count is how often each message is told.
func count(lines []logLine) map[string]int {
	told := make(map[string]int)
	for _, l := range lines {
		told[l.Message]++
	}
	return told
}

// TestLogOfADeath: what a survivor logs of a death, by the id of the quorum that fell, is
// the whole story, each part of it once: who broke the group, what became of the step,
// which quorum came next, and what it cost.
func TestLogOfADeath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		log := logsOf(w, zerolog.InfoLevel)
		a, b, c := w.trainer("a"), w.trainer("b"), w.trainer("c")
		halfway := c.stopsHalfway(5)
		a.start(15)
		b.start(15)
		c.start(15)
		halfway()
		fell := a.m.QuorumID()
		c.kill()
		w.reaches(15, a, b)
		lines := log.lines(t, "a", fell)
		// Between the formation of the quorum and its fall nothing is told of steps.
		at := slices.IndexFunc(lines, func(l logLine) bool { return l.Level == "warn" })
		if at < 0 {
			t.Fatalf("no warning:\n%s", log)
		}
		told := count(lines[at:])
		if told["step discarded"] == 0 { // the answer of the next quorum came before the step had ended
			told["step discarded"] = count(log.lines(t, "a", 0))["step discarded"]
		}
		for _, message := range []string{"quorum fell", "step discarded", "quorum formed", "training goes on"} {
			if told[message] != 1 {
				t.Errorf("%q is told %d times, want once:\n%s", message, told[message], log)
			}
		}
		last := lines[len(lines)-1]
		if last.Message != "training goes on" || last.After != fell || last.QuorumID == fell || last.Step != 6 || last.Discarded < 1 {
			t.Errorf("last line %+v, want that step 6 was done anew after quorum %d", last, fell)
		}
		if !slices.ContainsFunc(lines[at:], func(l logLine) bool { return l.Level == "warn" && strings.Contains(l.Error+l.Reason, "c:") }) {
			t.Errorf("no warning names c:\n%s", log)
		}
		if strings.Contains(log.String(), "step committed") {
			t.Errorf("each step is told at info:\n%s", log)
		}
	})
}

// TestLogOfADrain: a replica that leaves in order is no warning in any log.
func TestLogOfADrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		log := logsOf(w, zerolog.InfoLevel)
		a, b, c := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40), w.trainer("c").start(1<<40)
		w.reaches(5, a, b, c)
		c.m.Drain()
		c.ended(ErrDrained)
		w.reaches(a.m.Step()+5, a, b)
		b.m.Drain()
		a.m.Drain() // the first of two to leave ends the quorum of the other
		a.ended(ErrDrained)
		b.ended(ErrDrained)
		if text := log.String(); strings.Contains(text, `"level":"warn"`) || strings.Contains(text, "lost") || !strings.Contains(text, `"drained"`) {
			t.Errorf("want no warning and nobody lost:\n%s", text)
		}
	})
}

// TestNothingRegistered: replicas that could not heal one another are told so once, when
// there is another one.
func TestNothingRegistered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		log := logsOf(w, zerolog.WarnLevel)
		unregistered := func(name string) *trainer {
			tr := w.trainer(name)
			tr.m.states = state.Parts{}
			return tr
		}
		a := unregistered("a").start(1 << 40)
		w.reaches(3, a)
		if text := log.String(); text != "" {
			t.Errorf("alone: %s", text)
		}
		b := unregistered("b").start(1 << 40)
		w.reaches(b.m.Step()+3, b)
		b.kill()
		w.reaches(a.m.Step()+3, a)
		b = unregistered("c").start(1 << 40)
		w.reaches(b.m.Step()+3, a, b)
		for _, name := range []string{"a", "b", "c"} {
			n := 0
			for text := range strings.Lines(log.String()) {
				if strings.Contains(text, "nothing is registered") && strings.Contains(text, `"name":"`+name+`"`) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%s is warned %d times, want once:\n%s", name, n, log)
			}
		}
	})
}
