package tcp

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/tensor"
)

// TestLongMessages: point-to-point of any length gives the bytes that were sent,
// and what is longer than a frame goes through shared memory where there is some.
func TestLongMessages(t *testing.T) {
	t.Parallel()
	for _, transport := range []Transport{TransportShared, TransportTCP} {
		t.Run(transport.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2, Options{Transport: transport})
			w.configure(1)
			for _, n := range []int{0, 1, MaxPayload / 4, MaxPayload/4 + 1, 300_001, 3 << 20} {
				before := w.backends[0].Stats().SharedBytes
				passBothWays(t, w, n)
				shared := w.backends[0].Stats().SharedBytes - before
				want := uint64(0)
				if transport == TransportShared && 4*n > MaxPayload {
					want = uint64(4 * n)
				}
				if shared != want {
					t.Errorf("%d bytes: %d through shared memory, want %d", 4*n, shared, want)
				}
			}
			for r, b := range w.backends {
				eventually(t, "no buffer is out", func() bool { return b.Stats().Buffers == 0 })
				if got := b.poller; got != nil && b.pending.Load() != 0 {
					t.Errorf("rank %d: %d ops pending", r, b.pending.Load())
				}
			}
		})
	}
}

// passBothWays has both ranks send and receive n elements at once.
func passBothWays(t *testing.T, w *world, n int) {
	t.Helper()
	got := make([]tensor.Tensor, 2)
	var works []*pg.Work
	for r, b := range w.backends {
		got[r] = tensor.Of(make([]float32, n))
		works = append(works,
			b.Submit(&pg.Op{Kind: pg.KindSend, In: []tensor.Tensor{tensor.Of(noise(r, n))}, Peer: 1 - r, Tag: 3}),
			b.Submit(&pg.Op{Kind: pg.KindRecv, Out: []tensor.Tensor{got[r]}, Peer: pg.AnySource, Tag: 3}))
	}
	for _, work := range works {
		if err := wait(t, work); err != nil {
			t.Fatalf("%d elements: %v", n, err)
		}
	}
	for r := range got {
		if !bytes.Equal(got[r].Bytes(), tensor.Of(noise(1-r, n)).Bytes()) {
			t.Errorf("%d elements: rank %d received others than were sent", n, r)
		}
	}
}

// TestLongMessagesBesideCollectives: the records of a collective that the receiver
// has not called yet fill their ring, and hold up no message; nor does a message
// that nobody receives hold up a collective, or another message.
func TestLongMessagesBesideCollectives(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, Options{Transport: TransportShared, RingBytes: minRingBytes})
	w.configure(1)
	const n = 1 << 20
	a, b := w.backends[0], w.backends[1]
	unwanted := a.Submit(&pg.Op{Kind: pg.KindSend, In: tensors(pattern(0, n)), Peer: 1, Tag: 1})
	var sends, reductions []*pg.Work
	for i := range 3 {
		x := tensors(pattern(0, n))
		reductions = append(reductions, a.Submit(&pg.Op{Kind: pg.KindAllReduce, In: x, Out: x}))
		sends = append(sends, a.Submit(&pg.Op{Kind: pg.KindSend, In: tensors(pattern(i, n)), Peer: 1, Tag: 2}))
	}
	eventually(t, "the ring is full", a.soleLane(t).channels[0].send.Waiting.Load)
	for i := range sends {
		got := tensor.Of(make([]float32, n))
		if err := wait(t, b.Submit(&pg.Op{Kind: pg.KindRecv, Out: []tensor.Tensor{got}, Peer: 0, Tag: 2})); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), tensor.Of(pattern(i, n)).Bytes()) {
			t.Errorf("message %d has other bytes than were sent", i)
		}
	}
	for range reductions {
		x := tensors(pattern(1, n))
		if err := wait(t, b.Submit(&pg.Op{Kind: pg.KindAllReduce, In: x, Out: x})); err != nil {
			t.Fatal(err)
		}
	}
	for _, work := range append(sends, reductions...) {
		if err := wait(t, work); err != nil {
			t.Error(err)
		}
	}
	if unwanted.Finished() {
		t.Error("a long message that nobody receives is sent")
	}
	y := tensor.Of(make([]float32, n))
	if err := wait(t, b.Submit(&pg.Op{Kind: pg.KindRecv, Out: []tensor.Tensor{y}, Peer: 0, Tag: 1})); err != nil {
		t.Error(err)
	}
	if err := wait(t, unwanted); err != nil {
		t.Error(err)
	}
}

// TestUnaskedRecords: records of messages that nobody has asked for, of other
// lengths or at other places than they should be, break the group; nothing lands.
func TestUnaskedRecords(t *testing.T) {
	t.Parallel()
	const n = 200_000
	for i, spoil := range []func(h *frame.Header){
		func(h *frame.Header) { h.Seq = 2 },
		func(h *frame.Header) { h.Tag = 6 },
		func(h *frame.Header) { h.Offset = 64 },
		func(h *frame.Header) { h.Total += 4 },
		func(h *frame.Header) { h.Call.Kind = pg.KindAllReduce },
		func(h *frame.Header) { h.Epoch.Quorum++ },
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2, Options{Transport: TransportShared})
			w.configure(1)
			b, liar := w.backends[0], w.backends[1]
			out := make([]float32, n)
			poison(out)
			got := tensor.Of(out)
			recv := b.Submit(&pg.Op{Kind: pg.KindRecv, Out: []tensor.Tensor{got}, Peer: 1, Tag: 5})
			l := liar.linkTo("replica0")
			liar.mu.Lock()
			h := frame.Header{
				Type: frame.TypeData, Epoch: l.group.key, Seq: 1, Tag: 5, Total: 4 * n, Length: 128,
				Call: frame.Call{Kind: pg.KindSend, DType: tensor.Float32, Root: -1, Count: n},
			}
			announcement := h
			announcement.Length = 0
			l.control.push(control{head: announcement})
			liar.mu.Unlock()
			liar.kick(l)
			eventually(t, "the receive has taken it", func() bool {
				b.mu.Lock()
				defer b.mu.Unlock()
				return len(b.mu.group.recvs) == 0
			})
			spoil(&h)
			liar.mu.Lock()
			c := &l.lane.channels[frame.ClassMessage]
			memory, err := c.send.Reserve(128)
			end := c.send.Next
			liar.mu.Unlock()
			if err != nil || memory == nil {
				t.Fatal(err)
			}
			liar.writeRecord(c, &recordOut{head: h, memory: memory, payload: make([]byte, 128), end: end})
			if err := wait(t, recv); !errors.Is(err, ErrCorrupt) || opError(t, err).PeerID != "replica1" {
				t.Errorf("%v, want %v by replica1", err, ErrCorrupt)
			}
			untouchedPoison(t, "the tensor", out)
		})
	}
}
