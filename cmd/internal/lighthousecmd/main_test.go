package lighthousecmd

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse"
)

// asProgram in the environment makes this test binary the program itself.
const asProgram = "LIGHTHOUSE_TEST_AS_PROGRAM"

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise: they
// wait for processes and elections rather than compute.
const testsAtOnce = 6

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	paralleltest.AtOnce(testsAtOnce)
	goleak.VerifyTestMain(m)
}

// parsed is the configuration that the flags amount to, without serving it.
func parsed(t *testing.T, args ...string) lighthouse.Config {
	t.Helper()
	o := &options{cfg: lighthouse.DefaultConfig()}
	flags := pflag.NewFlagSet("lighthouse", pflag.ContinueOnError)
	o.add(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := o.torchft.apply(flags, &o.cfg, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	if err := o.cluster.apply(flags, &o.cfg); err != nil {
		t.Fatal(err)
	}
	derive(flags, &o.cfg)
	return o.cfg
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		want func(*lighthouse.Config)
	}{
		{"none", nil, func(*lighthouse.Config) {}},
		{"ours", []string{
			"--bind", "127.0.0.1:1", "--advertise", "head:29510", "--data-dir", "/d", "--min-replicas=3", "--max-replicas=9",
			"--join-timeout=7s", "--heartbeat-timeout=3s", "--torchft-heartbeat-timeout=9s", "--suspect-after=2s",
			"--grace=4s", "--stuck-after=5m", "--evict-stuck", "--beat-interval=50ms",
		}, func(c *lighthouse.Config) {
			c.Listen, c.Advertise, c.DataDir = "127.0.0.1:1", "head:29510", "/d"
			c.Rules.MinReplicas, c.Rules.MaxReplicas = 3, 9
			c.Rules.JoinTimeout, c.Rules.HeartbeatTimeout = 7*time.Second, 3*time.Second
			c.TorchftHeartbeatTimeout, c.Rules.SuspectAfter = 9*time.Second, 2*time.Second
			c.Rules.Grace, c.Rules.StuckAfter, c.Rules.EvictStuck = 4*time.Second, 5*time.Minute, true
			c.BeatInterval = 50 * time.Millisecond
		}},
		{"torchft's", []string{
			"--bind", "[::]:29510", "--min_replicas", "2", "--join_timeout_ms", "60000", "--quorum_tick_ms", "100",
			"--heartbeat_timeout_ms", "4000",
		}, func(c *lighthouse.Config) {
			c.Listen, c.Rules.MinReplicas = "[::]:29510", 2
			c.Rules.JoinTimeout, c.TorchftHeartbeatTimeout = time.Minute, 4*time.Second
		}},
		{"a short heartbeat timeout takes suspicion along", []string{"--heartbeat-timeout=300ms"}, func(c *lighthouse.Config) {
			c.Rules.HeartbeatTimeout, c.Rules.SuspectAfter = 300*time.Millisecond, 150*time.Millisecond
		}},
		{"a long one takes stuck along", []string{"--heartbeat-timeout=2m"}, func(c *lighthouse.Config) {
			c.Rules.HeartbeatTimeout, c.Rules.StuckAfter = 2*time.Minute, 2*time.Minute
		}},
		{"one of three", []string{
			"--data-dir=/d", "--bootstrap-expect=3", "--join=a:1,b:2", "--raft-address=c:3", "--gossip-address=c:4",
			"--voters=5", "--replace-after=1m", "--raft-timing=fast", "--disk-timeout=9s",
		}, func(c *lighthouse.Config) {
			c.DataDir, c.Cluster.Expect, c.Cluster.Join, c.Cluster.Voters = "/d", 3, []string{"a:1", "b:2"}, 5
			c.Cluster.RaftAddress, c.Cluster.GossipAddress, c.Cluster.ReplaceAfter = "c:3", "c:4", time.Minute
			c.Raft.DiskTimeout = 9 * time.Second
			c.Raft.Heartbeat, c.Raft.Election, c.Raft.Lease = 100*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond
		}},
		{"never stuck", []string{"--stuck-after=0"}, func(c *lighthouse.Config) { c.Rules.StuckAfter = 0 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			want := lighthouse.DefaultConfig()
			want.Rules.ProbationAfter = lighthouse.DefaultProbationAfter
			tc.want(&want)
			got := parsed(t, tc.args...)
			got.Log, want.Log = zerolog.Logger{}, zerolog.Logger{}
			if d := cmp.Diff(want, got, cmp.AllowUnexported(zerolog.Logger{})); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if err := got.Validate(); err != nil {
				t.Errorf("Validate: %v", err)
			}
		})
	}
}

// What a user can get wrong is one line that names the value and the bound, and
// a status that is not zero.
func TestBadFlags(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // the test is over
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"--min-replicas=0"}, []string{"--min-replicas = 0", "1 to 16384"}},
		{[]string{"--min_replicas=-3"}, []string{"--min-replicas = -3", "1 to 16384"}},
		{[]string{"--min-replicas=5", "--max-replicas=2"}, []string{"--max-replicas = 2", "--min-replicas (5)"}},
		{[]string{"--min-replicas=two"}, []string{`"two"`, "min-replicas"}},
		{[]string{"--join-timeout=-1s"}, []string{"--join-timeout = -1s"}},
		{[]string{"--join-timeout=3"}, []string{"join-timeout", `"3"`}},
		{[]string{"--join_timeout_ms=0"}, []string{"join_timeout_ms = 0", "1 to 86400000"}},
		{[]string{"--heartbeat_timeout_ms=86400001"}, []string{"heartbeat_timeout_ms = 86400001", "1 to 86400000"}},
		{[]string{"--heartbeat-timeout=1s", "--suspect-after=2s"}, []string{"--suspect-after = 2s", "--heartbeat-timeout (1s)"}},
		{[]string{"--evict-stuck", "--stuck-after=0"}, []string{"--evict-stuck = true"}},
		{[]string{"--bind=29510"}, []string{`--bind = "29510"`, "host:port"}},
		{[]string{"--advertise=head"}, []string{`--advertise = "head"`, "host:port"}},
		{[]string{"--bind=127.0.0.1:99999999"}, []string{"99999999"}},
		{[]string{"--bind=" + taken.Addr().String()}, []string{taken.Addr().String() + " is in use"}},
		{[]string{"--bind=127.0.0.1:0", "--data-dir=" + file}, []string{file}},
		{[]string{"--log-level=loud"}, []string{`--log-level = "loud"`, "info, debug, warn or error"}},
		{[]string{"--bind=127.0.0.1:0", "--min-replicas=0", "--max-replicas=-1"}, []string{"--min-replicas = 0", "--max-replicas = -1"}},
		{[]string{"--no-such-flag"}, []string{"no-such-flag"}},
		{[]string{"--bootstrap-expect=2", "--data-dir=/d"}, []string{"--bootstrap-expect = 2", "1, 3 or 5"}},
		{[]string{"--bootstrap-expect=3"}, []string{"--data-dir", "must keep"}},
		{[]string{"--join=a", "--data-dir=/d"}, []string{`--join = "a"`, "host:port"}},
		{[]string{"--raft-timing=quick"}, []string{`--raft-timing = "quick"`, "default, fast or slow"}},
		{[]string{"serve"}, []string{`"serve"`}},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			if status := Run(t.Context(), tc.args, &stdout, &stderr); status != 1 && status != 2 {
				t.Errorf("status %d, want 1, or 2 of what cannot be read", status)
			}
			text := stderr.String()
			if !strings.HasPrefix(text, "lighthouse: ") || strings.Count(text, "\n") != 1 {
				t.Errorf("stderr is not one line of ours:\n%s", text)
			}
			for _, want := range tc.want {
				if !strings.Contains(text, want) {
					t.Errorf("stderr %q lacks %q", text, want)
				}
			}
			if stdout.Len() != 0 {
				t.Errorf("stdout: %s", &stdout)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	var help, version, stderr bytes.Buffer
	if status := Run(t.Context(), []string{"--help"}, &help, &stderr); status != 0 {
		t.Errorf("--help: status %d: %s", status, &stderr)
	}
	for _, want := range []string{"--bind", "--advertise", "--data-dir", "--join-timeout"} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("help lacks %s:\n%s", want, &help)
		}
	}
	if strings.Contains(help.String(), "min_replicas") {
		t.Errorf("help shows torchft's spellings beside ours:\n%s", &help)
	}
	if status := Run(t.Context(), []string{"--version"}, &version, &stderr); status != 0 || version.Len() == 0 {
		t.Errorf("--version: status %d, said %q", status, &version)
	}
}

// A context that ends is an orderly end too.
func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr bytes.Buffer
	if status := Run(ctx, []string{"--bind=127.0.0.1:0"}, io.Discard, &stderr); status != 0 {
		t.Errorf("status %d:\n%s", status, &stderr)
	}
}

// program starts this binary as the program, and returns the address of its
// status page once it is served. It is killed when the test ends.
func program(t *testing.T, args ...string) (*testkit.Program, string) {
	t.Helper()
	p := testkit.Start(t, "lighthouse", []string{asProgram + "=1"}, append([]string{os.Args[0], "--bind=127.0.0.1:0"}, args...)...)
	from := p.Says("page=", 0)
	end := p.Says("\n", from)
	return p, strings.TrimSpace(p.String()[from:end])
}

func healthy(page string) bool {
	resp, err := http.Get(page + "healthz")
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // its status is all we want
	return resp.StatusCode == http.StatusOK
}

func TestSignalsEndItWell(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			p, page := program(t, "--data-dir", t.TempDir())
			testkit.Eventually(t, "it is healthy", func() bool { return healthy(page) })
			p.Signal(sig)
			if err := p.Err(); err != nil {
				t.Errorf("after %v: %v, want status 0", sig, err)
			}
		})
	}
}

func TestDataDirInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program(t, "--data-dir", dir)
	second := testkit.Start(t, "the second", []string{asProgram + "=1"}, os.Args[0], "--bind=127.0.0.1:0", "--data-dir", dir)
	second.EndsIn(dir + " is in use by another lighthouse")
}

func TestPageHost(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ addr, want string }{
		{"127.0.0.1:29510", "127.0.0.1:29510"},
		{"[::]:29510", "localhost:29510"},
		{"0.0.0.0:29510", "localhost:29510"},
		{":29510", "localhost:29510"},
		{"[::1]:29510", "[::1]:29510"},
		{"head:29510", "head:29510"},
		{"nonsense", "nonsense"},
	} {
		if got := pageHost(tc.addr); got != tc.want {
			t.Errorf("pageHost(%q) = %q, want %q", tc.addr, got, tc.want)
		}
	}
}
