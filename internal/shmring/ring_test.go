package shmring

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"unsafe"
)

const (
	testHead  = 16
	testMost  = 1000
	testBytes = 3072 // two of the largest records, and a half
)

// pair makes both ends of a ring.
func pair(head, size int) (*Producer, *Consumer) {
	words := make([]uint64, (2*WordsBytes+size)/8)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
	x, y := WordsAt(b, nil), WordsAt(b[WordsBytes:], nil)
	data := b[2*WordsBytes:]
	return &Producer{Data: data, Mine: x, Peer: y, HeadBytes: head}, &Consumer{Data: data, Mine: y, Peer: x, HeadBytes: head}
}

// TestRing: records of all lengths arrive whole and in order, many times round the
// ring, and a full ring takes more only once some was released.
func TestRing(t *testing.T) {
	t.Parallel()
	for _, head := range []int{testHead, 2 * Align} {
		p, c := pair(head, testBytes)
		random := rand.New(rand.NewPCG(5, 6))
		var lengths []int
		full, skipped, sent, got := 0, 0, 0, 0
		for got < 20_000 {
			n := random.IntN(testMost + 1)
			memory, err := p.Reserve(n)
			if err != nil {
				t.Fatal(err)
			}
			if memory != nil {
				if len(memory) != Bytes(head, n) {
					t.Fatalf("record of %d bytes has %d", n, len(memory))
				}
				binary.LittleEndian.PutUint32(memory, uint32(n))
				binary.LittleEndian.PutUint32(memory[4:], uint32(sent))
				for i := range n {
					memory[head+i] = byte(sent)
				}
				p.Publish(p.Next)
				sent, lengths = sent+1, append(lengths, n)
				if random.IntN(3) > 0 {
					continue
				}
			} else if full++; !p.Waiting.Load() || p.RoomCame() || !c.PeerBlocked() {
				t.Fatal("a full ring does not wait")
			}
			for range 1 + random.IntN(3) {
				var raw [testHead]byte
				before := c.Read
				most, ok, err := c.Peek(raw[:])
				if err != nil {
					t.Fatal(err)
				}
				if c.Read != before {
					skipped++
				}
				if !ok {
					break
				}
				n, k := int(binary.LittleEndian.Uint32(raw[:])), int(binary.LittleEndian.Uint32(raw[4:]))
				if k != got || n != lengths[got] || n > most {
					t.Fatalf("record %d of %d bytes, of at most %d; want %d of %d", k, n, most, got, lengths[got])
				}
				payload, end := c.Take(n)
				for i, x := range payload {
					if x != byte(got) {
						t.Fatalf("record %d byte %d is %d", got, i, x)
					}
				}
				got++
				c.Release(end)
			}
		}
		if full == 0 || skipped == 0 {
			t.Errorf("full %d times, %d records went to the start: the test shows nothing", full, skipped)
		}
	}
}

// TestRoom: what waits for room is told of the release after it has said so, and
// says no more that it waits once there is room.
func TestRoom(t *testing.T) {
	t.Parallel()
	p, c := pair(testHead, testBytes)
	for {
		memory, err := p.Reserve(testMost)
		if err != nil {
			t.Fatal(err)
		}
		if memory == nil {
			break
		}
		p.Publish(p.Next)
	}
	if !c.PeerBlocked() || p.RoomCame() {
		t.Errorf("blocked: %v, room came: %v", c.PeerBlocked(), p.RoomCame())
	}
	var raw [testHead]byte
	if _, ok, err := c.Peek(raw[:]); !ok || err != nil {
		t.Fatal(ok, err)
	}
	_, end := c.Take(testMost)
	c.Release(end)
	if !p.RoomCame() {
		t.Error("a record was released, and the producer sees no room")
	}
	if ok, err := p.Room(testMost); !ok || err != nil || p.Waiting.Load() || c.PeerBlocked() {
		t.Errorf("room: %v, %v; waits: %v", ok, err, p.Waiting.Load())
	}
}

// TestCorrupt: words that make no sense are errors.
func TestCorrupt(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(p *Producer, c *Consumer){
		"head beyond the ring":  func(p *Producer, _ *Consumer) { p.Mine.Head.Store(testBytes + Align) },
		"head behind the place": func(p *Producer, c *Consumer) { c.Read = 2 * Align; p.Mine.Head.Store(Align) },
		"head within a record":  func(p *Producer, _ *Consumer) { p.Mine.Head.Store(Align + 1) },
		"a head that the ring's end cuts": func(p *Producer, c *Consumer) {
			c.HeadBytes, c.Read = 2*Align, testBytes-Align
			p.Mine.Head.Store(testBytes)
		},
		"a mark, and no start": func(p *Producer, c *Consumer) {
			c.HeadBytes = 2 * Align
			binary.LittleEndian.PutUint32(c.Data, Skip)
			p.Mine.Head.Store(Align)
		},
	} {
		p, c := pair(testHead, testBytes)
		spoil(p, c)
		var raw [testHead]byte
		if _, ok, err := c.Peek(raw[:]); ok || err == nil {
			t.Errorf("%s: %v, %v, want an error", name, ok, err)
		}
	}
	for _, tail := range []uint64{3*Align + 1, 4 * Align, 1 << 63, ^uint64(0)} {
		p, c := pair(testHead, 3*Align)
		for range 3 {
			p.Claim(0)
		}
		c.Mine.Tail.Store(tail)
		if ok, err := p.Room(0); ok || err == nil {
			t.Errorf("tail %d of %d: %v, %v, want an error", tail, p.Next, ok, err)
		}
	}
}

// TestBegin: a consumer may be told to go on at a place that the peer has not reached:
// until then there is nothing, and nothing of what lies before.
func TestBegin(t *testing.T) {
	t.Parallel()
	p, c := pair(testHead, testBytes)
	p.Claim(100)
	p.Publish(p.Next)
	p.Claim(100)
	c.Begin(p.Next)
	var raw [testHead]byte
	if _, ok, err := c.Peek(raw[:]); ok || err != nil {
		t.Errorf("before the place: %v, %v, want nothing", ok, err)
	}
	binary.LittleEndian.PutUint32(p.Claim(7), 7)
	p.Publish(p.Next)
	if _, ok, err := c.Peek(raw[:]); !ok || err != nil || raw[0] != 7 {
		t.Errorf("at the place: %v, %v, %d", ok, err, raw[0])
	}
}

// FuzzPeek: whatever a peer writes, reading it ends, and stays within the ring.
func FuzzPeek(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0}, uint64(Align), uint64(0), false)
	f.Add([]byte{0x53, 0x6b, 0, 0}, uint64(testBytes), uint64(testBytes-Align), true)
	f.Add([]byte{}, ^uint64(0), uint64(0), true)
	f.Fuzz(func(t *testing.T, b []byte, head, read uint64, ahead bool) {
		p, c := pair(testHead, testBytes)
		copy(c.Data, b)
		c.Begin(read &^ (Align - 1))
		c.ahead = ahead
		p.Mine.Head.Store(head)
		for range 2 * testBytes / Align {
			var raw [testHead]byte
			most, ok, err := c.Peek(raw[:])
			if err != nil || !ok {
				return
			}
			n := int(binary.LittleEndian.Uint32(raw[:]))
			if n > most {
				return
			}
			if payload, end := c.Take(n); len(payload) != n || head-end > testBytes {
				t.Fatalf("record of %d bytes gave %d, up to %d of %d", n, len(payload), end, head)
			}
		}
		t.Fatal("reading does not end")
	})
}
