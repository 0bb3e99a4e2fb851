package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/internal/portlease"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// asProgram in the environment makes this test binary the program itself.
const asProgram = "TRAINER_TEST_AS_PROGRAM"

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise: they
// wait for trainers, whose steps are paced.
const testsAtOnce = 4

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m)
}

// start runs a trainer. It is killed when the test ends.
func start(t *testing.T, args ...string) *testkit.Program {
	t.Helper()
	return testkit.Start(t, "trainer", []string{asProgram + "=1"}, append(os.Args[:1:1], args...)...)
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flags, want string }{
		{"-index=2", "--index = 2, want 0 to 1 with --replicas 2"},
		{"-index=-1", "--index = -1, want 0 to 1"},
		{"-replicas=0", "--replicas = 0, want 1 or more"},
		{"-steps=0", "--steps = 0, want 1 or more"},
		{"-steps=many", `--steps = "many", want a whole number`},
		{"-hook=zip", `--hook = "zip", want one of none, fp16, bf16, powersgd`},
		{"-step-time=-1s", "--step-time = -1s, want 0 or more"},
		{"-step-timeout=0", "--step-timeout = 0s, want more than 0"},
		{"-checkpoint-every=0", "--checkpoint-every = 0, want 1 or more"},
		{"-checkpoint-dir=/dev/null/x", "not a directory"},
		{"-gpu=tpu", `--gpu = "tpu", want nothing, or one of nccl baby:nccl`},
		{"-gpu-index=-1", "--gpu-index = -1, want 0 or more"},
		{"-rounds=often", `By = "often", want one of localsgd, diloco, streaming`},
		{"-drained-status=256", "--drained-status = 256, want 0 to 125"},
		{"-linger=-1s", "--linger = -1s, want 0 or more"},
		{"-lighthouse=here", `Lighthouse = "here", want host:port`},
		{"-lighthouse=", `Lighthouse = [""], want the address of at least one lighthouse server, host:port`},
		{"-lighthouse=,", `Lighthouse = [","], want the address of at least one lighthouse server, host:port`},
		{"-nonsense", "unknown flag --nonsense of trainer; trainer --help lists them"},
		{"-stps=3", "unknown flag --stps of trainer, did you mean --steps?"},
		{"--step-tiem=3s", "unknown flag --step-tiem of trainer, did you mean --step-time?"},
		{"--linger=5", `--linger = "5", want a time with its unit, as 5ms or 5s`},
		{"--steps", "--steps has no value, want a whole number"},
		{"--tls-data=perhaps", `--tls-data = "perhaps", want true or false`},
		{"extra", `unexpected argument "extra"`},
	} {
		var stdout, stderr bytes.Buffer
		status := run(nil, []string{c.flags}, &stdout, &stderr)
		wanted := statusUsage
		if strings.HasPrefix(c.flags, "-lighthouse") || strings.HasPrefix(c.flags, "-checkpoint-dir") {
			wanted = 1 // the manager, and the folder, refuse them
		}
		if text := stderr.String(); status != wanted || stdout.Len() > 0 || strings.Count(text, "\n") != 1 || !strings.Contains(text, c.want) {
			t.Errorf("trainer %s: status %d, %q %q, want one line with %q", c.flags, status, &stdout, text, c.want)
		}
	}
	for _, flag := range []string{"-help", "--help", "-h"} {
		var help, stderr bytes.Buffer
		if status := run(nil, []string{flag}, &help, &stderr); status != 0 || !strings.Contains(help.String(), "--linger") || stderr.Len() > 0 {
			t.Errorf("%s: status %d, %q %q", flag, status, &help, &stderr)
		}
	}
}

// One dash and two mean the same, with a value behind = or after a space.
func TestDashes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-steps", "7", "-step-time=1s", "-verbose", "-tls-data=false"},
		{"--steps=7", "--step-time", "1s", "--verbose", "--tls-data=false"},
		{"--steps=7", "-step-time", "1s", "-verbose=true", "-tls-data=0"},
	} {
		o, err := parse(args, io.Discard)
		if err != nil || o.digits.Steps != 7 || o.digits.StepTime != time.Second || !o.verbose || o.tlsData == nil || *o.tlsData {
			t.Errorf("%q: %+v, %v", args, o, err)
		}
	}
	if _, err := parse([]string{"-index", "-1"}, io.Discard); err == nil || !strings.Contains(err.Error(), "--index = -1") {
		t.Errorf("a value below 0 is read as %v", err)
	}
	if _, err := parse([]string{"--rounds=diloco", "--linger=-1s"}, io.Discard); err == nil || !strings.Contains(err.Error(), "--linger = -1s") {
		t.Errorf("with --rounds a linger below 0 is read as %v", err)
	}
	if _, err := parse([]string{"--", "-steps"}, io.Discard); err == nil || !strings.Contains(err.Error(), `"-steps"`) {
		t.Errorf("what follows -- is read as %v", err)
	}
}

// A launcher's variables say which shard is this replica's, unless a flag does.
func TestShardOfTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		id, groups, flags string
		index, count      int
		bad               string
	}{
		{"2", "3", "", 2, 3, ""},
		{"2", "3", "-index=1", 1, 3, ""},
		{"2", "3", "-replicas=4", 2, 4, ""},
		{"a", "3", "-index=1", 1, 3, ""},
		{"2", "3", "-index=0 -replicas=1", 0, 1, ""},
		{"a", "", "", 0, 2, ""}, // a name
		{"a", "3", "", 0, 0, `REPLICA_GROUP_ID = "a", want a whole number`},
		{"3", "3", "", 0, 0, "--index = 3, want 0 to 2"},
	} {
		t.Setenv("REPLICA_GROUP_ID", c.id)
		t.Setenv("NUM_REPLICA_GROUPS", c.groups)
		o, err := parse(strings.Fields(c.flags), io.Discard)
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%+v: %v", c, err)
			}
		} else if shard := o.digits.Shard; err != nil || shard.Index != c.index || shard.Count != c.count {
			t.Errorf("%+v: %+v, %v", c, shard, err)
		}
	}
}

// A spare waits for its place before it reads its index: one whose launcher is gone says so, and one
// that is told to end is not needed.
func TestSpare(t *testing.T) {
	t.Setenv("SKERRY_SPARE", "/no/such/socket")
	var stdout, stderr bytes.Buffer
	if status := run(nil, nil, &stdout, &stderr); status != 1 || !strings.Contains(stderr.String(), `trainer: spare: SKERRY_SPARE = "/no/such/socket", want the socket`) {
		t.Errorf("status %d, %q", status, &stderr)
	}
	dir, err := os.MkdirTemp("", "spare-") // a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // no more than litter
	ln, err := net.Listen("unix", dir+"/0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // it accepts nothing
	t.Setenv("SKERRY_SPARE", dir+"/0")
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	if status := run(signals, nil, &stdout, &stderr); status != 0 {
		t.Errorf("status %d, %q", status, &stderr)
	}
}

// Nobody listens: the trainer tries for its time, and says what to do.
func TestLighthouseUnreachable(t *testing.T) {
	t.Parallel()
	addr := portlease.ForTest(t, 1)[0]
	var stdout, stderr bytes.Buffer
	status := run(nil, []string{"-lighthouse", addr, "-step-timeout=1s"}, &stdout, &stderr)
	text := stderr.String()
	if status != 1 || strings.Count(text, "\n") != 1 || !strings.Contains(text, "lighthouse unreachable: tried "+addr) {
		t.Errorf("status %d, %q, want one line", status, text)
	}
	if !strings.Contains(stdout.String(), "looks for the lighthouse at "+addr) {
		t.Errorf("said %q meanwhile", &stdout)
	}
}

// TestLighthouseOfTheEnvironment: without the flag it is the variable's, and this host's without that.
func TestLighthouseOfTheEnvironment(t *testing.T) {
	addr := portlease.ForTest(t, 1)[0]
	for _, c := range []struct {
		variable, want string
		args           []string
	}{
		{addr, addr, nil},
		{"127.0.0.1:1", addr, []string{"-lighthouse", addr}},
		{"", defaultLighthouse, nil},
	} {
		t.Setenv("SKERRY_LIGHTHOUSE", c.variable)
		var stdout, stderr bytes.Buffer
		run(nil, append(c.args, "-step-timeout=1s", "-steps=1", "-linger=0s"), &stdout, &stderr)
		if !strings.Contains(stdout.String(), "looks for the lighthouse at "+c.want) {
			t.Errorf("%+v: said %q %q", c, &stdout, &stderr)
		}
	}
}

// stays has a trainer that has had its steps stay for those who are late, until it is told
// to leave.
const stays = "-linger=1h"

// leave waits until all trainers have had their steps, and has them leave.
func leave(all ...*testkit.Program) {
	for _, tr := range all {
		tr.Says(": test accuracy ", 0)
	}
	for _, tr := range all {
		tr.Signal(syscall.SIGTERM)
	}
}

// Two trainers by one index: the second one is told, and the first goes on as
// if nothing had been.
func TestIndexTaken(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, lighthousetest.KeepsNames)
	flags := []string{"-lighthouse", house.Addr, "-replicas=1", "-steps=150", "-step-time=20ms", stays}
	first := start(t, flags...)
	first.Says("step 50: ", 0)
	second := start(t, flags...)
	if status, text := second.Exits(), second.String(); status != 1 || !strings.Contains(text, "\ntrainer: ") || !strings.Contains(text, "name in use") {
		t.Errorf("the second one: status %d\n%s", status, text)
	}
	first.Says("step 150: test accuracy", 0)
	first.Signal(syscall.SIGTERM)
	if status, text := first.Exits(), first.String(); status != 0 || strings.Contains(text, "discarded") {
		t.Errorf("the first one: status %d\n%s", status, text)
	}
}

// All trainers are killed at once, and go on from the newest checkpoint, to the accuracy
// of a run without that.
func TestGoesOnFromCheckpoint(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, nil)
	path := filepath.Join(t.TempDir(), "ckpt")
	flags := func(i int) []string {
		return []string{"-lighthouse", house.Addr, "-replicas=2", fmt.Sprint("-index=", i), "-steps=400", "-step-time=10ms", stays,
			"-checkpoint-dir", path, "-checkpoint-every=20"}
	}
	first := []*testkit.Program{start(t, flags(0)...), start(t, flags(1)...)}
	for _, tr := range first {
		tr.Says("step 150: ", 0)
	}
	for _, tr := range first {
		tr.Signal(syscall.SIGKILL)
	}
	for _, tr := range first {
		tr.Exits()
	}
	again := []*testkit.Program{start(t, flags(0)...), start(t, flags(1)...)}
	for _, tr := range again {
		tr.Says("goes on from checkpoint ", 0)
	}
	leave(again...)
	hashes := make(map[string]bool)
	for _, tr := range again {
		status, text := tr.Exits(), tr.String()
		if m := endLine.FindStringSubmatch(text); status != 0 || m == nil || m[1] < "0.95" || repeats(text) {
			t.Errorf("status %d\n%s", status, text)
		} else {
			hashes[m[2]] = true
		}
	}
	if len(hashes) != 1 {
		t.Errorf("the replicas end with %v, want the same bytes", hashes)
	}
}

// Replicas that exchange parameters in rounds learn as well, though one is killed and comes
// back, and end with the same bytes. So do those that send gradients by hooks.
func TestRoundsAndHooks(t *testing.T) {
	t.Parallel()
	for _, way := range []string{
		"-rounds=localsgd", "-rounds=diloco -rounds-quantize=int8", "-rounds=streaming -rounds-quantize=fp8",
		"-hook=fp16-powersgd",
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(way, "streaming") && !strings.Contains(way, "powersgd") {
				testkit.Long(t)
				if testing.Short() {
					t.Skip("one of each kind is enough for a short run")
				}
			}
			house := lighthousetest.Start(t, nil)
			run := func(i int) *testkit.Program {
				return start(t, append(strings.Fields(way), "-lighthouse", house.Addr, "-replicas=3", fmt.Sprint("-index=", i),
					"-steps=300", "-step-time=5ms", stays)...)
			}
			all := []*testkit.Program{run(0), run(1), run(2)}
			all[1].Says("step 100: ", 0)
			all[1].Signal(syscall.SIGKILL)
			all[1].Exits()
			all[1] = run(1)
			leave(all...)
			hashes := make(map[string]bool)
			for _, tr := range all {
				status, text := tr.Exits(), tr.String()
				m := endLine.FindStringSubmatch(text)
				if status != 0 || m == nil || m[1] < "0.94" {
					t.Errorf("status %d\n%s", status, text)
					continue
				}
				hashes[m[2]] = true
			}
			if len(hashes) != 1 {
				t.Errorf("the replicas end with %v, want the same bytes", hashes)
			}
		})
	}
}

// What a hook keeps from step to step is in the checkpoints: a replica that was killed, and
// goes on from one, ends with the bytes of one that was not. It is alone, since with others
// the steps that each is in depend on who comes first.
func TestHookGoesOnFromCheckpoint(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ckpt")
	run := func(house *lighthousetest.Server, more ...string) *testkit.Program {
		return start(t, append(more, "-lighthouse", house.Addr, "-replicas=1", "-steps=300", "-step-time=10ms", "-hook=fp16-powersgd")...)
	}
	whole := run(lighthousetest.Start(t, nil), "-linger=0")
	house, keep := lighthousetest.Start(t, nil), []string{"-linger=0", "-checkpoint-dir", path, "-checkpoint-every=20"}
	first := run(house, append(keep, stays)...)
	first.Says("step 150: ", 0)
	first.Signal(syscall.SIGKILL)
	first.Exits()
	again := run(house, keep...)
	again.Says("goes on from checkpoint ", 0)
	again.Exits()
	whole.Exits()
	got, want := endLine.FindStringSubmatch(again.String()), endLine.FindStringSubmatch(whole.String())
	if got == nil || want == nil || got[2] != want[2] || repeats(again.String()) {
		t.Errorf("went on from a checkpoint: %v\n%s\nwithout: %v\n%s", got, again, want, whole)
	}
}

// repeats says whether a trainer tells of steps that the checkpoint has, from which it
// went on. On a slow disk that is an old one.
func repeats(text string) bool {
	from := fromLine.FindStringSubmatch(text)
	if from == nil {
		return true
	}
	begun, _ := strconv.Atoi(from[1]) // digits
	for _, m := range stepLine.FindAllStringSubmatch(text, -1) {
		if n, _ := strconv.Atoi(m[1]); n <= begun {
			return true
		}
	}
	return begun == 0
}

// Lines of a trainer that goes on from a checkpoint.
var (
	fromLine = regexp.MustCompile(`goes on from checkpoint \S+ step (\d+) of quorum`)
	stepLine = regexp.MustCompile(`(?m)^step (\d+): loss`)
)

// endLine is what a trainer says when it has had its steps.
var endLine = regexp.MustCompile(`step [34]00: test accuracy ([0-9.]+), sha256 ([0-9a-f]+)`)

// SIGTERM drains: no replica loses a step by it, and the status is 0, or --drained-status. Ctrl-C does
// the same, to the last one too.
func TestSignalsDrain(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, lighthousetest.Patient)
	var all []*testkit.Program
	for i := range 3 {
		all = append(all, start(t, "-lighthouse", house.Addr, "-replicas=3", fmt.Sprint("-index=", i), "-steps=100000", "-step-time=20ms",
			"-drained-status", []string{"75", "0", "0"}[i]))
	}
	for _, tr := range all {
		tr.Says("step 50: ", 0)
	}
	all[0].Signal(syscall.SIGTERM)
	if status, text := all[0].Exits(), all[0].String(); status != 75 || !strings.Contains(text, "draining: ") || strings.Contains(text, "discarded") {
		t.Errorf("the drained one: status %d\n%s", status, text)
	}
	for _, tr := range all[1:] {
		tr.Says("2 of 2 members take part", 0)
		if text := tr.String(); strings.Contains(text, "discarded") {
			t.Errorf("another one lost a step by the drain:\n%s", text)
		}
		tr.Signal(syscall.SIGINT)
	}
	for _, tr := range all[1:] {
		if status, text := tr.Exits(), tr.String(); status != 0 {
			t.Errorf("after Ctrl-C: status %d\n%s", status, text)
		}
	}
}

// An operator's kill ends a trainer at once, with a line that says why.
func TestKillEndsAtOnce(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, nil)
	tr := start(t, "-lighthouse", house.Addr, "-replicas=1", "-steps=100000", "-step-time=20ms")
	tr.Says("step 50: ", 0)
	st, err := house.Lighthouse.Status(t.Context())
	if err != nil || len(st.Jobs) != 1 || len(st.Jobs[0].Replicas) != 1 {
		t.Fatalf("status %+v, %v; want one replica", st, err)
	}
	resp, err := http.Post(house.URL("/jobs/default/replicas/"+url.PathEscape(st.Jobs[0].Replicas[0].ReplicaID)+"/kill"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // its status is what matters
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("the lighthouse answers %d, want 204", resp.StatusCode)
	}
	const why = "\ntrainer: killed by an operator: asked for on the status page\n"
	if status, text := tr.Exits(), tr.String(); status != 1 || !strings.Contains(text, why) || strings.Contains(text, "draining") {
		t.Errorf("status %d, want 1 and %q\n%s", status, why, text)
	}
}

// -verbose logs what happens to quorums, -debug each step besides.
func TestVerbose(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, nil)
	for how, steps := range map[string]bool{"-verbose": false, "-debug": true} {
		var stdout, stderr bytes.Buffer
		args := []string{"-lighthouse", house.Addr, "-replicas=1", "-steps=3", "-step-time=1ms", "-linger=0", how}
		if status := run(nil, args, &stdout, &stderr); status != 0 {
			t.Errorf("%s: status %d: %s", how, status, &stderr)
		}
		text := stderr.String()
		if !regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3} INF quorum formed`).MatchString(text) || strings.Contains(text, "step committed") != steps {
			t.Errorf("%s: each step wanted: %t, and times with milliseconds:\n%s", how, steps, text)
		}
	}
}

// A second signal ends a trainer that waits for others to take over.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	house := lighthousetest.Start(t, nil)
	tr := start(t, "-lighthouse", house.Addr, "-replicas=1", "-steps=100000", "-step-time=20ms")
	tr.Says("step 50: ", 0)
	tr.Signal(syscall.SIGINT)
	tr.Says("draining: ", 0)
	tr.Signal(syscall.SIGINT)
	if status, text := tr.Exits(), tr.String(); status != 1 || !strings.Contains(text, "trainer: ended before others could take over") {
		t.Errorf("status %d\n%s", status, text)
	}
}
