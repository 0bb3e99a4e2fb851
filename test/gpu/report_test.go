package gpu

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// A journal is what a run has found, for the report. Safe for concurrent use.
type journal struct {
	mu struct {
		sync.Mutex

		notes  [][2]string
		checks [][3]string // title, verdict, text
		times  map[string][]record
	}
}

// results are those of this run: TestMain writes them down when all tests are
// done.
var results journal

func (j *journal) note(what, value string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.notes = append(j.mu.notes, [2]string{what, value})
}

func (j *journal) passed(title, text string) { j.check(title, "passed", text) }

func (j *journal) skipped(title, text string) { j.check(title, "left out", text) }

// follow enters a check that fails.
func (j *journal) follow(t *testing.T, title string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			j.check(title, "**FAILED**", "see the log of "+t.Name())
		}
	})
}

func (j *journal) check(title, verdict, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.checks = append(j.mu.checks, [3]string{title, verdict, text})
}

func (j *journal) measured(who string, all []record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.times == nil {
		j.mu.times = make(map[string][]record)
	}
	j.mu.times[who] = all
}

// markdown is the report.
func (j *journal) markdown(now time.Time) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "# On a GPU\n\nWritten by `make gpu` on %s; %d ranks", now.UTC().Format(time.DateOnly), *ranks)
	if *spread {
		fmt.Fprintf(&b, ", each on a GPU of its own.")
	} else {
		fmt.Fprintf(&b, " on one GPU, which look like different hosts to NCCL (NCCL_HOSTID)\n"+
			"and so talk over sockets through the host: these figures are about correctness and overhead, not about a fabric.")
	}
	fmt.Fprint(&b, "\n\n| | |\n|---|---|\n")
	if !*real {
		fmt.Fprint(&b, "| **libraries** | **the fakes: nothing here is a measurement of hardware** |\n")
	}
	fmt.Fprintf(&b, "| commit | %s |\n| command | `%s` |\n", cmp.Or(*revision, "unknown"), cmp.Or(*command, strings.Join(os.Args, " ")))
	for _, n := range j.mu.notes {
		fmt.Fprintf(&b, "| %s | %s |\n", n[0], n[1])
	}
	fmt.Fprint(&b, "\n## What holds\n\n| | | |\n|---|---|---|\n")
	for _, c := range j.mu.checks {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c[0], c[1], c[2])
	}
	j.tableLocked(&b)
	return b.String()
}

// tableLocked sets our figures beside torch's.
func (j *journal) tableLocked(b *strings.Builder) {
	ours, theirs := j.mu.times["skerry"], j.mu.times["torch.distributed"]
	if len(ours) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## Time and bandwidth\n\nThe arithmetic is nccl-tests': algbw is size over time, busbw is that times a factor of the collective.\n"+
		"%d iterations after %d warm-ups, queued one behind the other; the slowest rank; float32; GB are 10⁹ bytes.\n\n", iterations, warmups)
	fmt.Fprint(b, "| collective | bytes | µs | algbw GB/s | busbw GB/s | torch.distributed µs | busbw GB/s |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, p := range patterns() {
		for _, rec := range ours {
			if rec.What != p.name {
				continue
			}
			fmt.Fprintf(b, "| %s | %d | %.1f | %.3f | %.3f |", p.name, rec.Bytes, 1e6*rec.Seconds,
				p.algbw(rec.Bytes, rec.Seconds), p.busbw(rec.Bytes, rec.Seconds, *ranks))
			text := " – | – |\n"
			for _, other := range theirs {
				if other.What == p.name && other.Bytes == rec.Bytes {
					text = fmt.Sprintf(" %.1f | %.3f |\n", 1e6*other.Seconds, p.busbw(other.Bytes, other.Seconds, *ranks))
				}
			}
			fmt.Fprint(b, text)
		}
	}
}

func writeReport() error {
	if *report == "" {
		return nil
	}
	return os.WriteFile(*report, []byte(results.markdown(time.Now())), 0o644)
}

// The report says where it is from, what holds, and the figures beside torch's.
func TestReport(t *testing.T) {
	var j journal
	j.note(whatDevice, "a GPU")
	j.passed("all is well", "yes")
	j.skipped("torch", "not there")
	j.measured("skerry", []record{{What: "all_reduce", Bytes: 1e6, Seconds: 1e-3}, {What: "reduce", Bytes: 4, Seconds: 1}})
	j.measured("torch.distributed", []record{{What: "all_reduce", Bytes: 1e6, Seconds: 2e-3}})
	got := j.markdown(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC))
	for _, want := range []string{
		"2026-11-21", "| device | a GPU |", "| all is well | passed | yes |", "| torch | left out | not there |",
		"| all_reduce | 1000000 | 1000.0 | 1.000 |", " 2000.0 |", "| reduce | 4 | 1000000.0 |", " – | – |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("report lacks %q:\n%s", want, got)
		}
	}
	if fakes := strings.Contains(got, "the fakes"); fakes == *real {
		t.Errorf("report says it is of the fakes: %v, real: %v", fakes, *real)
	}
}
