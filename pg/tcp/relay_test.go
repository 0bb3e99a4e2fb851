package tcp

import (
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
)

// A rank sends its part of a relayed broadcast on only as far as it is there
// without a gap. A piece that came before the op was open is put in place by
// another goroutine, and may be later than those that came after it: passed on
// too soon, it would be whatever lay there.
func TestRelayWaitsForTheGap(t *testing.T) {
	t.Parallel()
	const root, other, pieces = 0, 2, 4
	task := &task{
		op: &pg.Op{Kind: pg.KindBroadcast, Root: root}, call: frame.Call{Relay: true},
		peers: make([]peerIO, 3), crcs: make([]slotCRC, 1+pieces),
	}
	task.peers[root].in[0] = stream{used: true, pieces: pieces, slots: 1}
	task.peers[other].out[1] = stream{used: true, pieces: pieces, slots: 1}
	may := func(piece int, want int, more bool) {
		t.Helper()
		task.crcs[1+piece].set(7)
		if got := task.relayLocked(root); got != more {
			t.Errorf("piece %d is there: more to send is %v, want %v", piece, got, more)
		}
		if got := task.peers[other].out[1].limit; got != want {
			t.Errorf("piece %d is there: %d pieces may go, want %d", piece, got, want)
		}
	}
	may(1, 0, false)
	may(2, 0, false)
	may(0, 3, true)
	may(3, 4, true)
	if task.relayLocked(other) {
		t.Error("a piece that does not come from the root is relayed")
	}
}
