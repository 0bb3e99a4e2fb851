package frame

import (
	"bytes"
	"errors"
	"testing"

	"github.com/skerry-ft/skerry/internal/shmring"
)

func FuzzHello(f *testing.F) {
	h := Hello{Cluster: "c", ReplicaID: "a:b", Numbers: Numbers{
		QuorumID: 4, GroupRank: 1, Rank: 2, WorldSize: 3, Socks: 2,
		Window: [Classes]uint32{MinWindowBytes, MaxWindowBytes},
	}}
	f.Add(h.Encode())
	f.Add([]byte{})
	odd := h.Encode()
	odd[8+4+4+4+4*Classes+3] = 0xff // neither with shared memory nor without
	f.Add(odd)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := DecodeHello(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%v is not ErrCorrupt", err)
			}
			return
		}
		if h.Rank >= h.WorldSize || h.WorldSize > MaxWorldSize || h.GroupRank >= MaxWorldSize ||
			h.ReplicaID == "" || len(h.ReplicaID) > MaxReplicaIDBytes || len(h.Cluster) > MaxClusterBytes || h.Socks < 1 || h.Socks > MaxStreams {
			t.Errorf("accepted %+v", h)
		}
		if again := h.Encode(); !bytes.Equal(again, b) {
			t.Errorf("encodes to %x, was %x", again, b)
		}
	})
}

// TestProof: a proof holds for one direction of one socket, one token and one
// set of fields.
func TestProof(t *testing.T) {
	t.Parallel()
	a, b := Nonce{1}, Nonce{2}
	token := []byte("token")
	h := Hello{Cluster: "c", ReplicaID: "a", Numbers: Numbers{QuorumID: 4, WorldSize: 2, Members: MemberHash([]string{"a", "b"})}}
	h.Prove(token, a, b, Binding{})
	if !h.Verify(token, a, b, Binding{}) {
		t.Fatal("does not hold")
	}
	if h.Verify(token, b, a, Binding{}) || h.Verify([]byte("other"), a, b, Binding{}) || h.Verify(token, Nonce{3}, b, Binding{}) || h.Verify(token, a, b, Binding{1}) {
		t.Error("holds for another direction, token or socket")
	}
	h.Nonces[3]++
	if h.Verify(token, a, b, Binding{}) {
		t.Error("holds for other streams")
	}
	h.Nonces[3]--
	h.QuorumID++
	if h.Verify(token, a, b, Binding{}) {
		t.Error("holds for another epoch")
	}
	if MemberHash([]string{"ab", "c"}) == MemberHash([]string{"a", "bc"}) {
		t.Error("member lists run together")
	}
}

// TestHelloLaneAligned: a start within a record is refused: reading there would
// run past the end of the ring.
func TestHelloLaneAligned(t *testing.T) {
	t.Parallel()
	h := Hello{ReplicaID: "x", Numbers: Numbers{WorldSize: 2, Socks: 1, Lane: 1, Window: [Classes]uint32{MinWindowBytes, MinWindowBytes}}}
	for start, ok := range map[uint64]bool{0: true, shmring.Align: true, 1: false, shmring.Align - 1: false, ^uint64(0): false} {
		for class := range Classes {
			h.Rings = [Classes]uint64{}
			h.Rings[class] = start
			_, err := DecodeHello(h.Encode())
			if ok && err != nil || !ok && !errors.Is(err, ErrCorrupt) {
				t.Errorf("ring %d from %d: %v, want accepted: %v", class, start, err, ok)
			}
		}
	}
}
