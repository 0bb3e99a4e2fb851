package checkpoint

import (
	"testing"
	"unsafe"

	"github.com/skerry-ft/skerry/pg"
)

// TestStagingMemoryIsReused: a donor must not grow by a copy with every heal.
func TestStagingMemoryIsReused(t *testing.T) {
	t.Parallel()
	tr, err := NewHTTP(HTTPConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	s := State{Tensors: map[string]pg.Tensor{"t": pg.New(pg.Float32DType, 1000)}}
	places := make(map[*byte]bool)
	for range 10 {
		if err := tr.Serve(t.Context(), "v", s); err != nil {
			t.Fatal(err)
		}
		snap, _, _, err := tr.stage.look("v")
		if err != nil || snap == nil {
			t.Fatalf("nothing staged: %v", err)
		}
		places[unsafe.SliceData(snap.data)] = true
		tr.stage.release(snap)
	}
	if len(places) > 2 {
		t.Errorf("10 copies took %d pieces of memory, want at most 2", len(places))
	}
}
