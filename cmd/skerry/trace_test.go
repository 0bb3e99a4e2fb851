package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/pg/trace"
	"github.com/skerry-ft/skerry/tensor"
)

// TestTrace: two of three ranks wait for the third, the group breaks at a
// deadline, and the dumps say who was missing.
func TestTrace(t *testing.T) {
	dir := t.TempDir()
	net := pgtest.NewMemory()
	w := pgtest.NewWorld(t, t.Name())
	var members []pgtest.Member
	for _, id := range []string{"a", "b", "c"} {
		members = append(members, w.Join(id, trace.NewRecorder(net.Backend(), trace.Config{
			Group: "dp", Dump: trace.Files(dir + string(filepath.Separator)),
		})))
	}
	w.Configure(members...)
	x := []tensor.Tensor{tensor.New(tensor.Float32, 8)}
	waiting := w.Groups[0].Submit(&pg.Op{Kind: pg.KindAllReduce, In: x, Out: x})
	late := w.Groups[2].Submit(&pg.Op{
		Kind: pg.KindAllReduce, In: x, Out: x, Deadline: time.Now().Add(20 * time.Millisecond),
	})
	for _, work := range []*pg.Work{waiting, late} {
		if err := work.Wait(t.Context()); err == nil {
			t.Fatal("an op without rank 1 succeeded")
		}
	}
	var files []string
	for deadline := time.Now().Add(pgtest.PromptBound); len(files) < 3; files, _ = filepath.Glob(dir + "/*.json") {
		if time.Now().After(deadline) {
			t.Fatalf("dumps %q, want 3", files)
		}
		<-time.After(time.Millisecond)
	}
	var out, errOut bytes.Buffer
	if code := run(append([]string{"trace"}, files...), &out, &errOut); code != 0 {
		t.Fatalf("exit %d: %s", code, &errOut)
	}
	for _, want := range []string{
		"dumps of 3 of 3 ranks", "MISSING: collective 1, all-reduce float32[8] sum: rank 1 (b) did not call it",
		context.DeadlineExceeded.Error(),
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if code := run([]string{"trace", filepath.Join(dir, "none.json")}, &out, &errOut); code != 1 ||
		!strings.Contains(errOut.String(), "none.json") {
		t.Errorf("a file that is not there: exit %d, %s", code, &errOut)
	}
}
