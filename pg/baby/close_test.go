package baby

import (
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg/pgtest"
)

// Close ends while the start of a spare, which Configure left behind, still
// waits for its turn.
func TestCloseRightAfterConfigure(t *testing.T) {
	t.Parallel()
	for range 3 {
		w := pgtest.NewWorld(t, pgtest.StartStore(t))
		b, err := New(Options{Backend: patient, Spare: true})
		if err != nil {
			t.Fatal(err)
		}
		w.Configure(w.Join("solo", b))
		ended := make(chan error, 1)
		go func() { ended <- b.Close() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("Close hangs")
		}
	}
}
