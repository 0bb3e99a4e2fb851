package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

func sampleHeader() Header {
	return Header{
		Type: TypeData, Phase: 1, Length: 1000, Epoch: Epoch{0x1122334455667788, -5},
		Seq: 7, Offset: 24, Total: 4096, Tag: 9, CRC: 0xdeadbeef,
		Call: Call{Kind: pg.KindAllReduce, DType: tensor.Float32, Reduce: tensor.Max, Root: -1, Round: 3, Count: 1024, Sig: 0xcafe},
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	t.Parallel()
	want := sampleHeader()
	var b [HeaderBytes]byte
	want.Encode(b[:])
	var got Header
	if err := got.Decode(b[:]); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for i := range b { // every bit is covered by the checksum
		b[i] ^= 0x10
		if err := got.Decode(b[:]); err == nil {
			t.Errorf("a flipped bit in byte %d is not found", i)
		}
		b[i] ^= 0x10
	}
}

func TestHeaderBounds(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(h *Header){
		"type 0":             func(h *Header) { h.Type = 0 },
		"type beyond":        func(h *Header) { h.Type = typeEnd },
		"payload too long":   func(h *Header) { h.Length, h.Total = MaxPayload+1, 1<<40 },
		"control too long":   func(h *Header) { h.Type, h.Length = TypeHello, maxControl+1 },
		"beat with payload":  func(h *Header) { h.Type, h.Length = TypeBeat, 1 },
		"phase":              func(h *Header) { h.Phase = 2 },
		"beyond its stream":  func(h *Header) { h.Offset = h.Total },
		"offset overflow":    func(h *Header) { h.Offset = ^uint64(0) - 10; h.Total = ^uint64(0) },
		"offset past stream": func(h *Header) { h.Offset = h.Total + 1 },
	} {
		h := sampleHeader()
		edit(&h)
		var b [HeaderBytes]byte
		h.Encode(b[:])
		if name == "offset overflow" {
			b[4] = 20 // more bytes than are left below 2^64
		}
		binary.LittleEndian.PutUint32(b[92:], Checksum(b[:92]))
		if err := h.Decode(b[:]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

func FuzzHeader(f *testing.F) {
	h := sampleHeader()
	b := make([]byte, HeaderBytes)
	h.Encode(b)
	f.Add(b)
	f.Add(make([]byte, HeaderBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < HeaderBytes {
			return
		}
		b = bytes.Clone(b[:HeaderBytes])
		// A fuzzer seldom guesses a checksum.
		binary.LittleEndian.PutUint32(b[92:], Checksum(b[:92]))
		var h Header
		if err := h.Decode(b); err != nil {
			return
		}
		if h.Length > MaxPayload || h.Type == 0 || h.Type >= typeEnd || h.Type != TypeData && h.Length > maxControl {
			t.Errorf("accepted %+v", h)
		}
		if h.Type == TypeData && (h.Phase > 1 || h.Offset > h.Total || uint64(h.Length) > h.Total-h.Offset) {
			t.Errorf("accepted %+v", h)
		}
	})
}
