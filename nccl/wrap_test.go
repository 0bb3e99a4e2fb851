package nccl

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/tensor"
)

// Memory of somebody else, in the middle of an allocation of theirs, is a tensor
// here, and in a Baby's child; closing it leaves it alone.
func TestWrap(t *testing.T) {
	f := open(t)
	dev := f.device(t, 0)
	arena, err := dev.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Close()
	for _, offset := range []int{0, 1024} {
		buf, err := dev.Wrap(arena.p+Pointer(offset), 64)
		if err != nil {
			t.Fatal(err)
		}
		w := pgtest.NewWorld(t, pgtest.StartStore(t))
		b := babyOf(t, f, wellBehaved)
		w.Next()
		ctx, cancel := context.WithTimeout(t.Context(), pgtest.Bound)
		defer cancel()
		if err := b.Configure(ctx, w.Config([]pgtest.Member{{ID: "solo", Backend: b}}, 0)); err != nil {
			t.Fatal(err)
		}
		if err := factorTwo(t, b, buf, pgtest.Bound); err != nil {
			t.Errorf("at offset %d: %v", offset, err)
		}
		if err := buf.Close(); err != nil {
			t.Error(err)
		}
		got := make([]byte, 16)
		want := tensor.Of([]float32{2, 4, 6, 8}).Bytes()
		if err := arena.CopyToHost(got, offset); err != nil || !slices.Equal(got, want) {
			t.Errorf("the arena has %x at %d, %v; want %x", got, offset, err, want)
		}
	}
}

// An arena that gives a place away again, for something larger, has its tensors
// reduced in the same child.
func TestWrapGrows(t *testing.T) {
	f := open(t)
	dev := f.device(t, 0)
	arena, err := dev.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer arena.Close()
	b := babyOf(t, f, wellBehaved)
	w := pgtest.NewWorld(t, pgtest.StartStore(t))
	w.Configure(w.Join("solo", b))
	for _, size := range []int{64, 4096, 128} {
		buf, err := dev.Wrap(arena.p, size)
		if err != nil {
			t.Fatal(err)
		}
		ones := slices.Repeat([]float32{1}, size/4)
		if err := buf.CopyFromHost(0, tensor.Of(ones).Bytes()); err != nil {
			t.Fatal(err)
		}
		x, err := tensor.OnDevice(buf, tensor.Float32, size/4)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Groups[0].Submit(&pg.Op{
			Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Reduce: tensor.PreMulSum, Factor: 2,
		}).Wait(t.Context()); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if got := tensor.Slice[float32](onHost(t, x)); got[0] != 2 || got[len(got)-1] != 2 {
			t.Errorf("%d bytes: first and last are %v and %v, want 2", size, got[0], got[len(got)-1])
		}
	}
	buf, err := dev.Wrap(arena.p, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Unshare(buf), w.Groups[0].Barrier(t.Context())); err != nil {
		t.Error(err)
	}
}

// What cannot be wrapped, exported or imported is refused with the reason.
func TestWrapRefuses(t *testing.T) {
	f := open(t)
	dev := f.device(t, 0)
	if _, err := dev.Wrap(0, 8); err == nil {
		t.Error("the null address was wrapped")
	}
	if _, err := dev.Wrap(4096, 0); err == nil {
		t.Error("no bytes were wrapped")
	}
	stray, err := dev.Wrap(4096, 8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stray.Export(); err == nil {
		t.Error("memory that is no allocation was exported")
	}
	ignorant := &Device{driver: struct{ Driver }{f.driver}, ctx: dev.ctx}
	other := &Buffer{dev: ignorant, p: 4096, size: 8, foreign: true}
	if _, err := other.Export(); !errors.Is(err, pg.ErrUnsupported) {
		t.Errorf("export with a driver without Ranges: %v, want ErrUnsupported", err)
	}
	far := binary.LittleEndian.AppendUint64(make([]byte, wholeHandle), maxOffset+1)
	for _, handle := range [][]byte{nil, make([]byte, 63), make([]byte, 65), far} {
		if _, err := dev.Import(handle, 8); err == nil {
			t.Errorf("a handle of %d bytes was imported", len(handle))
		}
	}
}
