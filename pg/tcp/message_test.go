package tcp

import (
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/tensor"
)

// A receive that is posted while the only frame of a message is on its way, placed
// and not read, ends when the frame is there: also if the message has no bytes.
func TestReceiveWhileItsFrameIsOnItsWay(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 3} {
		w := newWorld(t, 2, Options{Transport: TransportTCP})
		w.configure(1)
		b := w.backends[0]
		b.mu.Lock()
		g := b.mu.group
		l := g.peers[1]
		b.mu.Unlock()
		h := frame.Header{
			Type: frame.TypeData, Epoch: g.key, Seq: 1, Tag: 7, Length: uint32(4 * n), Total: uint64(4 * n),
			Call: frame.Call{Kind: pg.KindSend, DType: tensor.Of([]float32{}).DType(), Count: uint64(n)},
		}
		s := l.place(&h)
		if s.message == nil {
			t.Fatalf("%d elements: the frame has no place: %v", n, b.Err())
		}
		got := b.Submit(&pg.Op{Kind: pg.KindRecv, Peer: 1, Tag: 7, Out: []tensor.Tensor{tensor.Of(make([]float32, n))}})
		if got.Finished() {
			t.Errorf("%d elements: received before the frame is there: %v", n, got.Err())
		}
		l.socks[0].arrived(&h, &s)
		if err := wait(t, got); err != nil {
			t.Errorf("%d elements: %v", n, err)
		}
	}
}
