package bench

import (
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/cmd/skerry/internal/python"
)

// TestRowsOfPython: what is no row is passed over; what is none but looks like one ends the bench.
func TestRowsOfPython(t *testing.T) {
	t.Parallel()
	var rows []Row
	emit := func(more ...Row) { rows = append(rows, more...) }
	said := "[Gloo] Rank 0 is connected\n" +
		`{"op": "ddp", "impl": "gloo", "n": 2, "parameters": 34314, "took_ms": [3, 1, 2]}` + "\n"
	if err := emitLines(strings.NewReader(said), emit); err != nil || len(rows) != 1 {
		t.Fatalf("%v, rows %+v, want one", err, rows)
	}
	if r := rows[0]; r.Bench != "python" || r.Impl != "gloo" || r.Median != 2 || r.Samples != 3 || r.Params.String() != "n=2 op=ddp parameters=34314" {
		t.Errorf("row %+v", r)
	}
	for _, bad := range []string{`{"impl": "gloo"}`, `{"took_ms": [1]}`, `{"impl": "gloo", "took_ms": "1"}`, "{"} {
		if err := emitLines(strings.NewReader(bad), emit); err == nil || !strings.Contains(err.Error(), "row") {
			t.Errorf("%s: %v, want it refused", bad, err)
		}
	}
	if len(rows) != 1 {
		t.Errorf("rows %+v, want the first alone", rows)
	}
}

func TestPythonArguments(t *testing.T) {
	t.Parallel()
	got := Options{Samples: 3, Bytes: []int64{4, 1024}, Peers: true}.pythonArgs("allreduce", 4)
	if want := []string{"allreduce", "--ranks", "4", "--rounds", "3", "--bytes", "4,1024", "--gloo"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPythonIsMeasured runs where a python3 with the package and torch is the first in PATH.
func TestPythonIsMeasured(t *testing.T) {
	t.Parallel()
	if err := python.Check(t.Context(), pythonModule); err != nil {
		t.Skip(err)
	}
	var rows []Row
	if err := runModule(t.Context(), func(more ...Row) { rows = append(rows, more...) },
		Options{Samples: 1, Bytes: []int64{4096}, Peers: true}.pythonArgs("allreduce", 2)); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[0].Impl != "skerry" || rows[1].Impl != "gloo" || rows[0].Median <= 0 {
		t.Errorf("rows %+v, want one of each", rows)
	}
}
