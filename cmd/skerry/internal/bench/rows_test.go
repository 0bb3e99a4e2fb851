package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/bench/viewers"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/pg/tcp"
)

// The benches themselves run, with as little as will do: real processes, a real
// lighthouse. They run beside each other, for what they measure is not judged here.
func TestAllReduceMeasuresProcesses(t *testing.T) {
	t.Parallel()
	rows := collect(t, runAllReduce, Options{Samples: 1, N: []int{2}, Bytes: []int64{4096}})
	if len(rows) != 2 {
		t.Fatalf("got %d rows, want 2", len(rows))
	}
	for i, impl := range []string{"skerry", "skerry-tcp"} {
		r := rows[i]
		if r.Impl != impl || r.Unit != "us" || r.Samples != 1 || r.Median <= 0 || r.Params["bytes"] != int64(4096) {
			t.Errorf("row %+v", r)
		}
	}
}

func TestCollectivesMeasureEachOp(t *testing.T) {
	t.Parallel()
	rows := collect(t, runCollectives, Options{Samples: 1, N: []int{3}, Bytes: []int64{4096}})
	var seen []string
	for _, r := range rows {
		if r.Impl == "skerry" && r.Median > 0 {
			seen = append(seen, r.Params["op"].(string))
		}
	}
	if want := []string{"reducescatter", "allgather", "alltoall", "broadcast"}; !slices.Equal(seen, want) {
		t.Errorf("measured %v, want %v", seen, want)
	}
}

func TestDDPMeasuresEachHook(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("trains for seconds, in processes of its own")
	}
	rows := collect(t, runDDP, Options{Samples: 1, N: []int{2}, Bytes: []int64{1 << 20}})
	var seen []string
	for _, r := range rows {
		if r.Impl != "skerry-tcp" && r.Unit == "ms" && r.Median >= 50 { // the backward pass alone
			seen = append(seen, r.Impl+" "+r.Params["op"].(string))
		}
	}
	want := []string{"skerry step", "skerry-baby step", "skerry step-25mib-buckets", "skerry-baby step-25mib-buckets", "skerry step-bf16", "skerry-baby step-bf16", "skerry step-powersgd", "skerry-baby step-powersgd"}
	if !slices.Equal(seen, want) {
		t.Errorf("measured %v, want %v", seen, want)
	}
}

func TestReconfigureMeasuresEachKind(t *testing.T) {
	t.Parallel()
	rows := collect(t, runReconfigure, Options{Samples: 1, N: []int{3}})
	var seen []string
	for _, r := range rows {
		if r.Impl == "skerry" && r.Median > 0 && r.Unit == "ms" {
			seen = append(seen, r.Params["edges"].(string))
		}
	}
	if want := []string{"new", "kept", "join"}; !slices.Equal(seen, want) {
		t.Errorf("measured %v, want %v", seen, want)
	}
}

func TestDetectAsksEverySurvivor(t *testing.T) {
	t.Parallel()
	rows := collect(t, runDetect, Options{Samples: 1, N: []int{3}, Bytes: []int64{1 << 20}})
	if len(rows) != 2 || rows[0].Samples != 2 || rows[0].Median <= 0 || rows[1].Impl != "skerry-tcp" {
		t.Errorf("rows %+v", rows)
	}
}

func TestQuorumMeasuresBothLedgers(t *testing.T) {
	t.Parallel()
	rows := collect(t, runQuorum, Options{Samples: 1, N: []int{2}})
	var seen []string
	for _, r := range rows {
		// Beside what the quorums write, what was told is saved now and then, a second after it was.
		writes, _ := r.Params["writes"].(int)
		delete(r.Params, "writes")
		seen = append(seen, r.Params.String())
		quorums := 0
		if r.Params["change"] == true {
			quorums = 21
		}
		if writes < quorums || writes > quorums+10 {
			t.Errorf("%d writes, want %d for quorums and few besides: %v", writes, quorums, r.Params)
		}
		if r.Median <= 0 {
			t.Errorf("median %v, want more than 0: %v", r.Median, r.Params)
		}
	}
	want := []string{
		"change=false durable=false n=2 servers=1", "change=true durable=false n=2 servers=1",
		"change=false durable=true n=2 servers=1", "change=true durable=true n=2 servers=1",
		"change=false durable=true n=2 servers=3", "change=true durable=true n=2 servers=3",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("got rows %v, want %v", seen, want)
	}
}

func TestFailoverMeasuresBothTimings(t *testing.T) {
	t.Parallel()
	rows := collect(t, runFailover, Options{Samples: 1, N: []int{2}})
	if len(rows) != 2 || rows[0].Params["timing"] != "fast" || rows[1].Params["timing"] != "default" {
		t.Fatalf("got rows %+v", rows)
	}
	for _, r := range rows {
		if r.Unit != "ms" || r.Samples != 1 || r.Median <= 0 {
			t.Errorf("row %+v", r)
		}
	}
}

func TestHealMeasuresEveryKindOfChange(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("trains for seconds, in processes of its own")
	}
	rows := collect(t, runHeal, Options{Samples: 1, Bytes: []int64{4 << 20}})
	if len(rows) != 1+3*len(healChanges)+1 || rows[0].Impl != "raw stream" || rows[4].Bench != "heal-donor-killed" {
		t.Fatalf("rows %+v", rows)
	}
	for _, r := range append(rows[1:4], rows[5:]...) {
		if r.Samples != 1 || r.Median <= 0 && r.Bench != "heal-over-step" || r.Params["copied_mib"] != 4.0 {
			t.Errorf("row %+v", r)
		}
	}
}

func TestParityMeasuresWhatAComparisonAdds(t *testing.T) {
	t.Parallel()
	rows := collect(t, runParity, Options{Samples: 3, Bytes: []int64{1 << 20}})
	if len(rows) != 2 || rows[0].Samples < 3 || rows[0].Params["mib"] != 1.0 || rows[0].Params["found_within"] != int64(8) ||
		rows[1].Params["whole"] != true || rows[1].Params["found_within"] != int64(1) {
		t.Errorf("rows %+v", rows)
	}
}

func TestScaleMeasuresTheServersProcess(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("trains for seconds, in processes of its own")
	}
	rows := collect(t, runScale, Options{Samples: 2, N: []int{20}})
	var seen []string
	for _, r := range rows {
		seen = append(seen, r.Bench)
	}
	want := []string{
		"scale-join", "scale-join-cpu", "scale-beats", "scale-beats-cpu", "scale-memory",
		"scale-ask", "scale-ask-cpu", "scale-ask", "scale-ask-cpu",
	}
	if !slices.Equal(seen, want) {
		t.Fatalf("got rows %v, want %v", seen, want)
	}
	if rows[0].Median <= 0 || rows[4].Median <= 0 || rows[2].Median <= 0 {
		t.Errorf("rows %+v", rows)
	}
}

func TestViewersMeasureTheServersProcess(t *testing.T) {
	t.Parallel()
	r := viewers.Run{
		Replicas: 20, Jobs: 2, Events: 3, Viewers: 4, Slow: 1, Rounds: 1,
		Period: 2 * time.Second, Between: 300 * time.Millisecond,
	}
	rows := make(map[string]Row)
	err := viewersRows(t.Context(), r, func(more ...Row) {
		for _, one := range more {
			rows[fmt.Sprint(one.Bench, one.Params["viewers"])] = one
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"viewers-cpu0", "viewers-memory0", "viewers-beats0", "viewers-steps0", "viewers-answer0", "viewers-death0",
		"viewers-cpu4", "viewers-memory4", "viewers-beats4", "viewers-steps4", "viewers-answer4", "viewers-death4",
		"viewers-arrival-cpu4", "viewers-hourly4", "viewers-patches4",
	} {
		if one := rows[want]; one.Samples < 1 || one.Median <= 0 {
			t.Errorf("%s: row %+v, want one with samples", want, one)
		}
	}
	if one := rows["viewers-cost4"]; one.Samples != 1 {
		t.Errorf("row %+v", one)
	}
}

func collect(t *testing.T, run runFunc, o Options) []Row {
	t.Helper()
	var rows []Row
	err := run(t.Context(), o, func(more ...Row) { rows = append(rows, more...) })
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// A rank that ends between two samples ends the contest: the next task is an
// error, and waits for nobody.
func TestTaskToDeadRanks(t *testing.T) {
	t.Parallel()
	r, err := startRanks(2, rankKind{impl: "skerry", Transport: tcp.TransportAuto})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // they are dead
	p := Params{"bytes": int64(1024), "op": opAllReduce}
	if _, err := r.Sample(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r.procs[0].Kill()
	for range 2 { // the first may be written before the end is seen
		if _, err = r.Sample(t.Context(), p); err != nil {
			break
		}
	}
	if err == nil {
		t.Error("dead ranks answer")
	}
}

func TestTLSMeasuresBoth(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("trains for seconds, in processes of its own")
	}
	rows := collect(t, runTLS, Options{Samples: 1, N: []int{2}, Bytes: []int64{1 << 20}})
	var seen []string
	for _, r := range rows {
		if r.Median <= 0 || r.Unit != "us" {
			t.Errorf("row %+v", r)
		}
		what := r.Params["op"]
		if what == nil {
			what = r.Params["edges"]
		}
		seen = append(seen, r.Impl+" "+what.(string))
	}
	want := []string{"plain allreduce", "TLS allreduce", "plain new", "TLS new", "plain heal", "TLS heal",
		"plain store open", "TLS store open", "plain store set", "TLS store set", "plain store get", "TLS store get",
		"plain store set", "TLS store set", "plain store get", "TLS store get"}
	if !slices.Equal(seen, want) {
		t.Errorf("measured %v, want %v", seen, want)
	}
}

// A peer's program is read from, ended and removed; here one that stands in for
// torchft's lighthouse.
func TestPeerProgramIsStartedAndEnded(t *testing.T) {
	python := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(python, []byte("#!/bin/sh\necho http://here:1234\ncat\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SKERRY_TORCHFT", "module.so")
	t.Setenv("SKERRY_TORCHFT_PYTHON", python)
	t.Setenv("TMPDIR", t.TempDir())
	s, err := startTorchft(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if s.impl != "torchft" || s.addr != "localhost:1234" || s.pid == 0 {
		t.Errorf("got %+v", s)
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
