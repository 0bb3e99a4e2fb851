package links

import (
	"encoding/binary"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wire carries packets between two hosts, and does to them what it is told.
type wire struct {
	ways [2]*way // by the host that sends
}

// way is one direction.
type way struct {
	from, to *os.File

	cut     atomic.Bool
	delay   atomic.Int64 // ns
	rate    atomic.Int64 // bytes a second; 0: as fast as they come
	spoil   atomic.Int64 // how many packets with data to spoil
	spoiled atomic.Int64
	carried atomic.Int64 // packets
}

// packet is one that is held back.
type packet struct {
	due  time.Time
	data []byte
}

const (
	maxPacket = 64 << 10
	// heldBack is how many packets may be under way; more are lost, as in a router.
	heldBack = 4096
	// spoilFrom is how much data a packet must have to be spoiled: beats and
	// acknowledgements have less.
	spoilFrom = 1000
)

// connect starts a wire between the hosts.
func connect(t *testing.T, h *hosts) *wire {
	t.Helper()
	w := &wire{ways: [2]*way{
		{from: h.devices[0], to: h.devices[1]},
		{from: h.devices[1], to: h.devices[0]},
	}}
	var carrying sync.WaitGroup
	for _, y := range w.ways {
		queue := make(chan packet, heldBack)
		carrying.Go(func() { y.take(queue) })
		carrying.Go(func() { y.give(queue) })
	}
	t.Cleanup(func() {
		for _, d := range h.devices {
			d.Close()
		}
		carrying.Wait()
	})
	return w
}

// take reads what the host sends, until the device is closed.
func (y *way) take(queue chan<- packet) {
	defer close(queue)
	buf := make([]byte, maxPacket)
	for {
		n, err := y.from.Read(buf)
		if err != nil {
			return
		}
		if y.cut.Load() {
			continue
		}
		p := packet{due: time.Now().Add(time.Duration(y.delay.Load())), data: append([]byte(nil), buf[:n]...)}
		select {
		case queue <- p:
		default: // lost
		}
	}
}

func (y *way) give(queue <-chan packet) {
	var free time.Time // when all before has passed; a late sleeper does not slow the wire
	for p := range queue {
		time.Sleep(time.Until(p.due))
		if y.cut.Load() {
			continue
		}
		if rate := y.rate.Load(); rate > 0 {
			if p.due.After(free) {
				free = p.due
			}
			free = free.Add(time.Duration(len(p.data)) * time.Second / time.Duration(rate))
			time.Sleep(time.Until(free))
		}
		if y.spoil.Load() > 0 && flip(p.data) { // not in take: the queue may lose it then
			y.spoil.Add(-1)
			y.spoiled.Add(1)
		}
		y.carried.Add(1)
		_, _ = y.to.Write(p.data) // the host may be gone: then it is lost
	}
}

// flip turns a bit of the data in a TCP packet, if it has much, and makes the
// packet's checksum right again, as a broken router or network card does.
func flip(p []byte) bool {
	const tcpProtocol = 6
	if len(p) < 20 || p[0]>>4 != 4 || p[9] != tcpProtocol {
		return false
	}
	segment := p[int(p[0]&15)*4:]
	if len(segment) < 20 {
		return false
	}
	data := segment[int(segment[12]>>4)*4:]
	if len(data) < spoilFrom {
		return false
	}
	data[len(data)/2] ^= 4
	binary.BigEndian.PutUint16(segment[16:], 0)
	binary.BigEndian.PutUint16(segment[16:], tcpChecksum(p[12:20], segment))
	return true
}

// tcpChecksum is that of a segment between the addresses.
func tcpChecksum(addresses, segment []byte) uint16 {
	sum := uint32(6) + uint32(len(segment))
	add := func(b []byte) {
		for ; len(b) > 1; b = b[2:] {
			sum += uint32(binary.BigEndian.Uint16(b))
		}
		if len(b) == 1 {
			sum += uint32(b[0]) << 8
		}
	}
	add(addresses)
	add(segment)
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
