package watch

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// job is a job of four replicas, one of which is lost.
func job(name string, stands bool) api.Job {
	j := api.Job{JobFacts: api.JobFacts{
		Job: name, State: "training", QuorumID: 1795, Ordinal: 59, Round: 1, Stands: stands, MaxStep: 661, Members: 3, Participants: 3, Reason: "all joined",
		Goodput: 0.9754, LastSeq: 3, StepsTotal: 60_000, EtaMs: 4_400_000,
	}}
	if !stands {
		j.State, j.FellBy = "reforming", "replica-0:00000000-0000-0000-0000-000000000000 died"
		j.WantedReplicas, j.Launchers = &api.Wanted{Replicas: 6, AtMs: 1, Reason: "more\x1b[2J machines"}, 2
	}
	for _, r := range []struct {
		id, state, why string
	}{
		{"replica-10:00000000-0000-0000-0000-000000000010", "live", ""},
		{"replica-2:00000000-0000-0000-0000-000000000002", "suspect", "one witness"},
		{"replica-1:00000000-0000-0000-0000-000000000001", "live", ""},
		{"replica-0:00000000-0000-0000-0000-000000000000", "lost", "stream broke"},
	} {
		j.Replicas = append(j.Replicas, api.Replica{ReplicaID: r.id, State: r.state, Why: r.why, Member: true, Participant: true, Step: 661, StepMs: 31.8, WaitMs: 0.97, Phase: "training", SilenceMs: 80})
	}
	return j
}

func status(jobs ...api.Job) api.Overview {
	return api.Overview{
		Head:     api.Head{Addr: "127.0.0.1:29510", Leads: true, Leader: "127.0.0.1:29510", Term: 2, Sessions: 4},
		UptimeMs: 61_500, Servers: []string{"a", "b", "c"}, Jobs: jobs,
	}
}

// TestFrames holds pictures of several sizes against the golden file. None is higher or
// wider than its window.
func TestFrames(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(100_000).UTC()
	var s seen
	before := job("digits", true)
	before.MaxStep, before.Members = 641, 4
	s.take(now.Add(-time.Second), status(before), nil)
	s.take(now, status(job("digits", true), job("vision", false)), nil)
	s.tell([]api.Event{{Job: "digits", AtMs: 99_000, Kind: "formed", Text: "replica-0:00000000-0000-0000-0000-000000000000 died: link cut, seen by replica-3 · known after 4 ms"}})
	var got strings.Builder
	for _, size := range [][2]int{{100, 24}, {80, 12}, {40, 7}, {10, 2}} {
		fmt.Fprintf(&got, "=== %d by %d\n", size[0], size[1])
		lines := s.frame(now, size[1], false)
		if len(lines) > size[1] {
			t.Errorf("%d lines in %d rows", len(lines), size[1])
		}
		for _, l := range lines {
			text := l.fit(size[0], false)
			if n := utf8.RuneCountInString(text); n > size[0] {
				t.Errorf("%q has %d columns of %d", text, n, size[0])
			}
			fmt.Fprintln(&got, strings.Replace(text, s.at.Format(time.TimeOnly), "HH:MM:SS", 1))
		}
	}
	fmt.Fprintln(&got, "=== no answer any more")
	s.take(now, api.Overview{}, errors.New("lighthouse a:1 cannot be reached"))
	for _, l := range s.frame(now.Add(12*time.Second), 2, false) {
		fmt.Fprintln(&got, strings.Replace(l.fit(100, false), s.at.Format(time.TimeOnly), "HH:MM:SS", 1))
	}
	golden := filepath.Join("testdata", "frames.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil { //nolint:gosec // it is a source file
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
}

// TestHostile: nothing that a lighthouse says does harm on a terminal.
func TestHostile(t *testing.T) {
	t.Parallel()
	const h = testkit.HostileText
	var s seen
	now := time.UnixMilli(1)
	hostile := api.Job{
		JobFacts: api.JobFacts{Job: h, State: h, QuorumID: 1, FellBy: h, Reason: h, Wanted: h, WantedReplicas: &api.Wanted{Replicas: 1, By: h, From: h, Reason: h}},
		Replicas: []api.Replica{{ReplicaID: h, State: h, Phase: h, Why: h}},
	}
	s.take(now, api.Overview{Head: api.Head{Addr: h, Leads: true, CertificateWarning: h}, Jobs: []api.Job{hostile}}, nil)
	s.tell([]api.Event{{Job: h, Text: h}, {Job: h, Kind: h, Replica: h}})
	for _, l := range s.frame(now, 50, true) {
		testkit.Harmless(t, l.fit(500, false))
	}
}

// TestNoColour: what colours say, words say, too.
func TestNoColour(t *testing.T) {
	t.Parallel()
	l := line{{"a", good}, {"b", normal}}
	if got := l.fit(9, true); got != "\x1b[32ma\x1b[0mb" {
		t.Errorf("with colour: %q", got)
	}
	if got := l.fit(9, false); got != "ab" {
		t.Errorf("without: %q", got)
	}
}

// TestPipe: where no terminal is, each change is a line, and an answer that says the
// same is none.
func TestPipe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		stands, fell := job("digits", true), job("digits", false)
		fell.Replicas[0].State, fell.Replicas[0].Why = "lost", "stream broke"
		answers := []any{status(stands), status(stands), errors.New("no answer"), errors.New("no answer"), status(fell)}
		var log testkit.Log
		err := Run(ctx, Config{Every: time.Second, Out: &log, Ask: func(context.Context) (api.Overview, error) {
			if len(answers) == 0 {
				cancel()
				return api.Overview{}, ctx.Err()
			}
			a := answers[0]
			answers = answers[1:]
			if err, failed := a.(error); failed {
				return api.Overview{}, err
			}
			return a.(api.Overview), nil
		}})
		if err != nil {
			t.Errorf("ended with %v", err)
		}
		var got []string
		for l := range strings.Lines(log.String()) {
			got = append(got, strings.TrimSpace(l[len("15:04:05.000 "):]))
		}
		want := []string{
			"job digits: step 661 of 60000, training, quorum #59 round 1 stands, 3 of 3 members take part",
			"job digits: replica-10:00000000 live",
			"job digits: replica-2:00000000 suspect: one witness",
			"job digits: replica-1:00000000 live",
			"job digits: replica-0:00000000 lost: stream broke",
			"no answer", "the lighthouse answers",
			"job digits: step 661 of 60000, reforming, quorum #59 fell: replica-0 died; replicas wanted: 6, by 2 launchers: more\\x1b[2J machines",
			"job digits: replica-10:00000000 lost: stream broke",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestTerminal: on a real one the picture is drawn in place, in the size of the window,
// again when that changes, and q brings the screen back.
func TestTerminal(t *testing.T) {
	t.Parallel()
	master, slave := openTerminal(t)
	resize := func(columns, rows uint16) {
		t.Helper()
		if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
			t.Fatal(err)
		}
	}
	resize(60, 10)
	ended := make(chan error, 1)
	changes := func(context.Context) ([]api.Event, error) {
		return []api.Event{{Job: "digits", Text: "replica-9 joined"}}, nil
	}
	go func() {
		ended <- Run(t.Context(), Config{Every: 10 * time.Millisecond, In: slave, Out: slave, Changes: changes, Ask: func(context.Context) (api.Overview, error) {
			return status(job("digits", true)), nil
		}})
	}()
	var log testkit.Log
	go func() { // ends when the terminal is closed
		var buf [4096]byte
		for {
			n, err := master.Read(buf[:])
			_, _ = log.Write(buf[:n]) // it is a buffer
			if err != nil {
				return
			}
		}
	}()
	testkit.Eventually(t, "the picture is drawn", func() bool {
		text := log.String()
		return strings.Contains(text, enter) && strings.Contains(text, "job digits") && strings.Contains(text, "members 3") && strings.Contains(text, "replica-9 joined")
	})
	resize(100, 30)
	testkit.Eventually(t, "the picture has the window's size", func() bool { return strings.Contains(log.String(), "replica-10:00000000") })
	if _, err := master.Write([]byte("xq")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(testkit.Patience):
		t.Fatal("q did not end it")
	}
	testkit.Eventually(t, "the screen is brought back", func() bool { return strings.Contains(log.String(), leave) })
}

// openTerminal opens a pseudo terminal, which is closed when the test ends.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() }) // the test is over
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() }) // the test is over
	return master, slave
}

// TestWorstFirst: what is wrong comes first, and last those that went and whose place
// another has taken.
func TestWorstFirst(t *testing.T) {
	t.Parallel()
	j := api.Job{}
	for id, state := range map[string]string{"a:1": "lost", "a:2": "live", "b:1": "lost", "c:1": "suspect", "d-10:1": "live", "d-9:1": "live", "e:1": "left", "e:2": "live"} {
		j.Replicas = append(j.Replicas, api.Replica{ReplicaID: id, State: state})
	}
	var got []string
	for _, l := range replicas(j, true)[1:] {
		got = append(got, strings.TrimSpace(l[1].text))
	}
	if want := "b:1 c:1 a:2 d-9:1 d-10:1 e:2 a:1 e:1"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
