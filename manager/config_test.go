package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/quorum"
)

func TestValidateNamesEveryProblem(t *testing.T) {
	t.Parallel()
	c := Config{
		GroupRank: 3, GroupWorldSize: 2, Job: "a b", MinReplicas: 5, FixedWorldSize: 3,
		StepTimeout: -1, HealTimeout: 48 * time.Hour, MaxRetries: -1, TotalSteps: -1,
		Start: Start{Position: quorum.Position{Cluster: strings.Repeat("c", 1000), Step: -1}, Batches: -1},
	}
	err := c.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{"GroupRank = 3", "GroupStore", "job", "MinReplicas = 5", "StepTimeout = -1ns",
		"HealTimeout = 48h0m0s", "MaxRetries = -1", "TotalSteps = -1, want 0 (not known) to 9007199254740992", "Start.Position.Step = -1", "Start.Position: position.cluster",
		"Start.Batches = -1", "Backend = <nil>"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%q is missing in:\n%v", field, err)
		}
	}
	err = Config{Listen: "0.0.0.0:0", Lighthouse: []string{"nohost"}}.Validate()
	for _, field := range []string{`ReplicaID = ""`, `Lighthouse = "nohost"`, `Advertise = ""`} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%q is missing in:\n%v", field, err)
		}
	}
	for _, none := range [][]string{nil, {""}, {","}, {" , ", ""}, {"http://"}} {
		err := Config{ReplicaID: "a", Lighthouse: none, Backend: pgtest.NewMemory().Backend()}.Validate()
		want := fmt.Sprintf("Lighthouse = %q, want the address of at least one lighthouse server, host:port", none)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for host, ok := range map[string]bool{"10.0.0.5": true, "name.example": true, "fd00::1": true, "[fd00::1]": true,
		"10.0.0.5:7000": false, "[fd00::1]:7000": false, "http://name": false, "name:7000": false} {
		err := Config{ReplicaID: "a", Lighthouse: []string{"h:1"}, Advertise: host, Backend: pgtest.NewMemory().Backend()}.Validate()
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), host) {
			t.Errorf("Advertise = %q: %v, want it taken: %t", host, err, ok)
		}
	}
	for id, want := range map[string]string{
		"   ":                      "visible",
		"live\u202eevil":           "U+202E",
		strings.Repeat("x", 1<<20): "ReplicaID has 1048576 bytes, want at most 219",
	} {
		err := Config{ReplicaID: id, Lighthouse: []string{"h:1"}, Backend: pgtest.NewMemory().Backend()}.Validate()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\u202e") || len(err.Error()) > 500 {
			t.Errorf("ReplicaID = %.20q: %v, want it refused, in quotes, with %q", id, err, want)
		}
	}
	good := Config{ReplicaID: "a", Lighthouse: []string{"http://h:1"}, Backend: pgtest.NewMemory().Backend()}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

func TestFromEnv(t *testing.T) {
	for k, v := range map[string]string{"TORCHFT_LIGHTHOUSE": "a:1, b:2", "RANK": "1", "WORLD_SIZE": "2",
		"MASTER_ADDR": "::1", "MASTER_PORT": "29500", "REPLICA_GROUP_ID": "7", "SKERRY_LIGHTHOUSE": "", "SKERRY_JOB": "j"} {
		t.Setenv(k, v)
	}
	var c Config
	if err := c.FromEnv(); err != nil {
		t.Fatal(err)
	}
	got := []any{c.Lighthouse, c.GroupRank, c.GroupWorldSize, c.GroupStore, c.ReplicaID, c.Job}
	want := []any{[]string{"a:1", "b:2"}, 1, 2, "[::1]:29500", "7", "j"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	t.Setenv("TORCHELASTIC_RESTART_COUNT", "3")
	if c = (Config{}); c.FromEnv() != nil || c.GroupStore != "[::1]:29500/attempt_3" {
		t.Errorf("GroupStore = %q, want one of each start of torchrun's workers", c.GroupStore)
	}
	for _, none := range []string{",", " "} { // it must not pass for another one that is set
		t.Setenv("SKERRY_LIGHTHOUSE", none)
		want := fmt.Sprintf("SKERRY_LIGHTHOUSE = %q, want the address of at least one lighthouse server", none)
		if err := (&Config{}).FromEnv(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	t.Setenv("SKERRY_LIGHTHOUSE", "")
	t.Setenv("RANK", "x")
	if err := (&Config{}).FromEnv(); err == nil || !strings.Contains(err.Error(), "RANK") {
		t.Errorf("%v, want RANK", err)
	}
}

func TestTimeoutsFromEnv(t *testing.T) {
	var log strings.Builder
	read := func() (Config, error) {
		c := Config{Log: zerolog.New(&log)}
		err := c.FromEnv()
		return c, err
	}
	t.Setenv("TORCHFT_TIMEOUT_SEC", "90")
	t.Setenv("TORCHFT_QUORUM_RETRIES", "5")
	t.Setenv("TORCHFT_MANAGER_PORT", "29512")
	if c, err := read(); err != nil || c.StepTimeout != 90*time.Second || c.HealTimeout != 0 {
		t.Errorf("%v %v, %v; want 90 s and the default", c.StepTimeout, c.HealTimeout, err)
	}
	for _, want := range []string{"TORCHFT_QUORUM_RETRIES", "TORCHFT_MANAGER_PORT", "SKERRY_LISTEN"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log %q, want a line about the variable without effect, with %s", log.String(), want)
		}
	}
	t.Setenv("SKERRY_STEP_TIMEOUT", "2m")
	t.Setenv("SKERRY_HEAL_TIMEOUT", "1h")
	if c, err := read(); err != nil || c.StepTimeout != 2*time.Minute || c.HealTimeout != time.Hour {
		t.Errorf("%v %v, %v; want 2 m and 1 h", c.StepTimeout, c.HealTimeout, err)
	}
	t.Setenv("SKERRY_STEP_TIMEOUT", "90")
	t.Setenv("SKERRY_HEAL_TIMEOUT", "-1s")
	_, err := read()
	for _, want := range []string{`SKERRY_STEP_TIMEOUT = "90", want a time above 0, as 90s or 2m`, `SKERRY_HEAL_TIMEOUT = "-1s"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A heal that may take less than a step would end before the step that it is beside.
func TestHealTimeoutIsAStepAtLeast(t *testing.T) {
	t.Parallel()
	c := Config{ReplicaID: "a", Lighthouse: []string{"h:1"}, Backend: pgtest.NewMemory().Backend(), StepTimeout: 20 * time.Minute}
	if err := c.Validate(); err != nil {
		t.Errorf("the default does not follow a longer step: %v", err)
	}
	c.HealTimeout = time.Minute
	want := "HealTimeout = 1m0s, want StepTimeout = 20m0s or more"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestTimeoutsDerive(t *testing.T) {
	t.Parallel()
	d := deriveTimeouts(DefaultStepTimeout, DefaultHealTimeout)
	want := Timeouts{Step: time.Minute, Heal: 10 * time.Minute, Quorum: time.Minute, Settle: time.Minute,
		Vote: time.Minute, Configure: 30 * time.Second, Connect: 30 * time.Second, Dial: 5 * time.Second,
		Call: 5 * time.Second, Drain: time.Minute, Linger: 2 * time.Second}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if d := deriveTimeouts(time.Second, time.Second); d.Call < minDerived {
		t.Errorf("%+v: nothing is less than %v", d, minDerived)
	}
}

// A ballot that cannot be read is one of a stranger: not ok, and not missing.
func TestStrangeBallots(t *testing.T) {
	t.Parallel()
	own := quorum.Ballot{QuorumID: 5, Round: 1, OK: true, Reduced: true}
	entries := []pg.BallotEntry{
		{Here: true, Payload: wire.EncodeBallot(own)}, {Here: true, Payload: []byte("junk")}, {},
	}
	v := quorum.JudgeBallots(0, decodeBallots(entries, own))
	if v.Vote != quorum.VoteNo || !cmp.Equal(v.NotOK, []int{1}) || !cmp.Equal(v.Missing, []int{2}) {
		t.Errorf("%+v, want no: rank 1 not ok, rank 2 missing", v)
	}
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	m, err := New(Config{ReplicaID: "a", Lighthouse: []string{"127.0.0.1:1"}, Backend: pgtest.NewMemory().Backend()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.ShouldCommit(t.Context()); err == nil {
		t.Error("ShouldCommit without StartQuorum is accepted")
	}
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Error(err)
	}
	if err := m.StartQuorum(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("StartQuorum after Close: %v", err)
	}
	if err := m.Run(t.Context()); err == nil {
		t.Error("Run after Close is accepted")
	}
}

// TestRunIsForgotten: StartQuorum says so, in the end; a Run that comes late is waited for.
func TestRunIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, err := New(Config{ReplicaID: "a", Lighthouse: []string{"127.0.0.1:1"}, Backend: pgtest.NewMemory().Backend()})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close() //nolint:errcheck // it never ran
		began := time.Now()
		if err := m.StartQuorum(t.Context()); !errors.Is(err, ErrNotRunning) || time.Since(began) != m.timeouts.Connect {
			t.Errorf("%v after %v, want ErrNotRunning after %v", err, time.Since(began), m.timeouts.Connect)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := m.StartQuorum(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the end of ctx", err)
		}
	})
}
