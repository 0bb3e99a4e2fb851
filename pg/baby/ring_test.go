package baby

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/futex"
	"github.com/skerry-ft/skerry/internal/memfd"
	"github.com/skerry-ft/skerry/internal/shmring"
	"github.com/skerry-ft/skerry/pg/pgtest"
)

// ringOf makes a ring, of which both sides are here.
func ringOf(t testing.TB) (*giver, *taker) {
	t.Helper()
	s, err := memfd.Create("test", channelBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	g, k := new(giver), new(taker)
	if err := errors.Join(connect(s, parentSide, g, new(taker)), connect(s, childSide, new(giver), k)); err != nil {
		t.Fatal(err)
	}
	return g, k
}

// Records of all lengths arrive whole and in order, many times round the ring.
func TestRing(t *testing.T) {
	t.Parallel()
	g, k := ringOf(t)
	random := rand.New(rand.NewPCG(1, 2))
	var sent [][]byte
	var r record
	given := 0
	for len(sent) > 0 || given < 5000 {
		n := random.IntN(maxRecordBytes + 1)
		if ok, err := g.room(n); err != nil {
			t.Fatal(err)
		} else if ok && given < 5000 && random.IntN(3) > 0 {
			body := bytes.Repeat([]byte{byte(given)}, n)
			g.put(recordOp, uint64(given), body)
			sent = append(sent, body)
			given++
			continue
		}
		ok, err := k.take(&r)
		if err != nil || ok != (len(sent) > 0) {
			t.Fatalf("take: %v, %v with %d records there", ok, err, len(sent))
		}
		if !ok {
			continue
		}
		if want := uint64(given - len(sent)); r.after != want || r.typ != recordOp || !bytes.Equal(r.body, sent[0]) {
			t.Fatalf("record %d of %d bytes, want %d of %d", r.after, len(r.body), want, len(sent[0]))
		}
		sent = sent[1:]
	}
}

// A full ring says so, and the giver is woken when there is room again.
func TestRingFull(t *testing.T) {
	t.Parallel()
	g, k := ringOf(t)
	back := k.peer // where the giver's side sleeps
	n := 0
	for {
		ok, err := g.room(100)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		g.put(recordOp, 0, make([]byte, 100))
		n++
	}
	if want := ringBytes / shmring.Bytes(recordHead, 100); n != want {
		t.Errorf("%d records in a ring of %d", n, want)
	}
	woken := make(chan struct{})
	back.Asleep.Store(1)
	go func() {
		defer close(woken)
		for back.Asleep.Load() == 1 {
			futex.Sleep(back.Asleep, time.Hour)
		}
	}()
	var r record
	if ok, err := k.take(&r); !ok || err != nil {
		t.Fatalf("take: %v, %v", ok, err)
	}
	select {
	case <-woken:
	case <-time.After(pgtest.PromptBound):
		t.Error("the giver sleeps on")
		futex.Wake(back.Asleep) // before the ring is unmapped
		<-woken
	}
	if ok, err := g.room(100); !ok || err != nil {
		t.Errorf("room: %v, %v after a record was taken", ok, err)
	}
	if g.Mine.Blocked.Load() != 0 {
		t.Error("the giver has room, and waits for it")
	}
}

// What the other side makes of the words is refused, not believed.
func TestRingCorrupt(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(g *giver, k *taker){
		"head beyond the ring":  func(g *giver, _ *taker) { g.Mine.Head.Store(ringBytes + shmring.Align) },
		"head behind the place": func(g *giver, k *taker) { k.Read = 128; g.Mine.Head.Store(64) },
		"head within a record":  func(g *giver, _ *taker) { g.Mine.Head.Store(recordHead + 1) },
		"record without an end": func(g *giver, _ *taker) {
			binary.LittleEndian.PutUint32(g.Data, 100)
			g.Mine.Head.Store(shmring.Align)
		},
		"record beyond the bound": func(g *giver, _ *taker) {
			binary.LittleEndian.PutUint32(g.Data, maxRecordBytes+1)
			g.Mine.Head.Store(ringBytes)
		},
		"length of all ones": func(g *giver, _ *taker) {
			binary.LittleEndian.PutUint32(g.Data, ^uint32(0))
			g.Mine.Head.Store(ringBytes)
		},
	} {
		g, k := ringOf(t)
		spoil(g, k)
		var r record
		if ok, err := k.take(&r); ok || !errors.Is(err, errRing) {
			t.Errorf("%s: %v, %v, want %v", name, ok, err, errRing)
		}
	}
	g, k := ringOf(t)
	for range ringBytes / shmring.Bytes(recordHead, 0) {
		g.put(recordOp, 0, nil)
	}
	for _, tail := range []uint64{g.Next + 1, 1 << 63, ^uint64(0)} {
		k.Mine.Tail.Store(tail)
		if ok, err := g.room(0); ok || !errors.Is(err, errRing) {
			t.Errorf("tail %d of %d: %v, %v, want %v", tail, g.Next, ok, err, errRing)
		}
	}
	k.Mine.Tail.Store(64)
	if ok, err := g.room(0); !ok || err != nil {
		t.Errorf("room: %v, %v", ok, err)
	}
	g.Next += 64
	k.Mine.Tail.Store(32)
	if ok, err := g.room(0); ok || !errors.Is(err, errRing) {
		t.Errorf("tail that goes back: %v, %v, want %v", ok, err, errRing)
	}
}

// FuzzTake: whatever the other side writes, what is taken lies within bounds.
func FuzzTake(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 1}, uint64(32), uint64(0))
	f.Add(bytes.Repeat([]byte{0xff}, 64), uint64(ringBytes), uint64(ringBytes-64))
	f.Fuzz(func(t *testing.T, data []byte, head, read uint64) {
		g, k := ringOf(t)
		read &^= shmring.Align - 1
		n := copy(k.Data[read%ringBytes:], data)
		copy(k.Data, data[n:])
		k.Read = read
		g.Mine.Head.Store(head)
		var r record
		for range ringBytes {
			ok, err := k.take(&r)
			if !ok || err != nil {
				return
			}
			if len(r.body) > maxRecordBytes || head-k.Read > ringBytes {
				t.Fatalf("record of %d bytes, %d left", len(r.body), head-k.Read)
			}
		}
		t.Fatal("the ring has no end")
	})
}

// FuzzResult: no result of a child is larger than what it may be.
func FuzzResult(f *testing.F) {
	f.Add(make([]byte, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		const world = 4
		var r result
		c := cursor{b: b}
		if err := r.read(&c, world); err == nil && (len(r.ballots) > world || len(r.batch)*24 > len(b)) {
			t.Fatalf("%d ballots, %d of a batch out of %d bytes", len(r.ballots), len(r.batch), len(b))
		}
		if err := decodeFault(b, nil); err != nil && len(err.Error()) > 8*maxFaultText {
			t.Fatalf("error of %d bytes", len(err.Error()))
		}
	})
}
