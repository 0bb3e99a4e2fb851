package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

func sampleHeader() header {
	return header{
		typ: frameData, phase: 1, length: 1000, epoch: epochKey{0x1122334455667788, -5},
		seq: 7, offset: 24, total: 4096, tag: 9, crc: 0xdeadbeef,
		call: call{kind: pg.KindAllReduce, dtype: tensor.Float32, reduce: tensor.Max, root: -1, round: 3, count: 1024, sig: 0xcafe},
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	t.Parallel()
	want := sampleHeader()
	var b [headerBytes]byte
	want.encode(b[:])
	var got header
	if err := got.decode(b[:]); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for i := range b { // every bit is covered by the checksum
		b[i] ^= 0x10
		if err := got.decode(b[:]); err == nil {
			t.Errorf("a flipped bit in byte %d is not found", i)
		}
		b[i] ^= 0x10
	}
}

func TestHeaderBounds(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(h *header){
		"type 0":             func(h *header) { h.typ = 0 },
		"type beyond":        func(h *header) { h.typ = frameTypeEnd },
		"payload too long":   func(h *header) { h.length, h.total = MaxPayload+1, 1<<40 },
		"control too long":   func(h *header) { h.typ, h.length = frameHello, maxControl+1 },
		"beat with payload":  func(h *header) { h.typ, h.length = frameBeat, 1 },
		"phase":              func(h *header) { h.phase = 2 },
		"beyond its stream":  func(h *header) { h.offset = h.total },
		"offset overflow":    func(h *header) { h.offset = ^uint64(0) - 10; h.total = ^uint64(0) },
		"offset past stream": func(h *header) { h.offset = h.total + 1 },
	} {
		h := sampleHeader()
		edit(&h)
		var b [headerBytes]byte
		h.encode(b[:])
		if name == "offset overflow" {
			b[4] = 20 // more bytes than are left below 2^64
		}
		binary.LittleEndian.PutUint32(b[92:], checksum(b[:92]))
		if err := h.decode(b[:]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

func FuzzHeader(f *testing.F) {
	h := sampleHeader()
	b := make([]byte, headerBytes)
	h.encode(b)
	f.Add(b)
	f.Add(make([]byte, headerBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headerBytes {
			return
		}
		b = bytes.Clone(b[:headerBytes])
		// A fuzzer seldom guesses a checksum.
		binary.LittleEndian.PutUint32(b[92:], checksum(b[:92]))
		var h header
		if err := h.decode(b); err != nil {
			return
		}
		if h.length > MaxPayload || h.typ == 0 || h.typ >= frameTypeEnd || h.typ != frameData && h.length > maxControl {
			t.Errorf("accepted %+v", h)
		}
		if h.typ == frameData && (h.phase > 1 || h.offset > h.total || uint64(h.length) > h.total-h.offset) {
			t.Errorf("accepted %+v", h)
		}
	})
}

func FuzzHello(f *testing.F) {
	h := hello{
		cluster: "c", quorumID: 4, replicaID: "a:b", groupRank: 1, rank: 2, worldSize: 3, socks: 2,
		window: [classes]int{minWindowBytes, maxWindowBytes},
	}
	f.Add(h.encode())
	f.Add([]byte{})
	odd := h.encode()
	odd[8+4+4+4+4*classes+3] = 0xff // neither with shared memory nor without
	f.Add(odd)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%v is not ErrCorrupt", err)
			}
			return
		}
		if h.rank < 0 || h.rank >= h.worldSize || h.worldSize > maxWorldSize || h.groupRank >= maxWorldSize ||
			h.replicaID == "" || len(h.replicaID) > maxReplicaIDBytes || len(h.cluster) > maxClusterBytes || h.socks < 1 || h.socks > MaxStreams {
			t.Errorf("accepted %+v", h)
		}
		if again := h.encode(); !bytes.Equal(again, b) {
			t.Errorf("encodes to %x, was %x", again, b)
		}
	})
}

func FuzzCause(f *testing.F) {
	c := cause{code: abortLost, peer: 1, peerID: "b", kind: pg.KindBarrier, seq: 8, err: errors.New("x")}
	f.Add(c.encode(), 4)
	f.Fuzz(func(t *testing.T, b []byte, world int) {
		world = max(world&0xff, 1)
		c, err := decodeCause(b, "somebody", world)
		if err != nil {
			return
		}
		if c.peer < -1 || c.peer >= world || len(c.err.Error()) > 4*maxAbortText+100 || c.code >= abortCodeEnd {
			t.Errorf("accepted %+v", c)
		}
	})
}

func TestCauseRoundTrip(t *testing.T) {
	t.Parallel()
	for code := abortUser; code < abortCodeEnd; code++ {
		want := cause{code: code, peer: 2, peerID: "x:y", kind: pg.KindScatter, seq: 1 << 40, err: errors.New("why")}
		got, err := decodeCause(want.encode(), "rank 1", 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, is := range code.sentinels() {
			if !errors.Is(got.err, is) {
				t.Errorf("code %d: %v does not wrap %v", code, got.err, is)
			}
		}
		got.err, want.err = nil, nil
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(cause{})); diff != "" {
			t.Errorf("code %d: %s", code, diff)
		}
	}
}

// TestProof: a proof holds for one direction of one socket, one token and one
// set of fields.
func TestProof(t *testing.T) {
	t.Parallel()
	a, b := newNonce(), newNonce()
	token := []byte("token")
	h := hello{cluster: "c", quorumID: 4, replicaID: "a", rank: 0, worldSize: 2, members: memberHash([]string{"a", "b"})}
	h.proof = h.prove(token, a, b, binding{})
	if !h.verify(token, a, b, binding{}) {
		t.Fatal("does not hold")
	}
	if h.verify(token, b, a, binding{}) || h.verify([]byte("other"), a, b, binding{}) || h.verify(token, newNonce(), b, binding{}) || h.verify(token, a, b, binding{1}) {
		t.Error("holds for another direction, token or socket")
	}
	h.nonces[3]++
	if h.verify(token, a, b, binding{}) {
		t.Error("holds for other streams")
	}
	h.nonces[3]--
	h.quorumID++
	if h.verify(token, a, b, binding{}) {
		t.Error("holds for another epoch")
	}
	if memberHash([]string{"ab", "c"}) == memberHash([]string{"a", "bc"}) {
		t.Error("member lists run together")
	}
}

func TestCombineCRC(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	p := make([]byte, 3*MaxPayload)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	for _, n := range []int{0, 1, 3, 64, 1000, MaxPayload - 64, MaxPayload, 2*MaxPayload - 17} {
		for _, m := range []int{0, 1, 5, 4096, MaxPayload} {
			got := combineCRC(checksum(p[:n]), checksum(p[n:n+m]), m)
			if want := checksum(p[:n+m]); got != want {
				t.Errorf("%d and %d bytes: %08x, want %08x", n, m, got, want)
			}
		}
	}
	for range 100 {
		sum, v := r.Uint32(), r.Uint32()
		var le [4]byte
		binary.LittleEndian.PutUint32(le[:], v)
		if got, want := extendCRC(sum, v), crc32.Update(sum, castagnoli, le[:]); got != want {
			t.Errorf("extend %08x by %08x: %08x, want %08x", sum, v, got, want)
		}
	}
}

// TestStreamPieces: both ends of a stream see the same pieces, which cover it,
// and no piece crosses a tensor or a chunk of the digest.
func TestStreamPieces(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var view [][]byte
		for range 1 + r.IntN(4) {
			view = append(view, make([]byte, r.IntN(3)*r.IntN(400_000)))
		}
		total, world := size(view), 1+r.IntN(5)
		cut, at := cutFor(total/world), 0
		for rank := range world {
			part := partOf(total, rank, world)
			if part.lo != at || part.hi < part.lo {
				t.Fatalf("part %d of %d bytes is %+v, want it to begin at %d", rank, total, part, at)
			}
			at = part.hi
			s, pieces := newStream(view, part, cut), 0
			for ; !s.finished(); pieces++ {
				off, n := s.off, s.size()
				if p := s.take(); len(p) != n || n > 0 && off/MaxPayload != (off+n-1)/MaxPayload {
					t.Fatalf("piece of %d bytes at %d", n, off)
				}
			}
			if s.done != part.len() || pieces != s.pieces || pieces < 1 {
				t.Fatalf("took %d of %d bytes in %d of %d pieces", s.done, part.len(), pieces, s.pieces)
			}
		}
		if at != total {
			t.Fatalf("parts end at %d, want %d", at, total)
		}
	}
}
