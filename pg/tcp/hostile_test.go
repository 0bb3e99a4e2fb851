package tcp

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/tcp/internal/frame"
	"github.com/skerry-ft/skerry/tensor"
)

// Bytes that a fuzzer chose, on every way into a backend. What is asked each
// time: nothing panics, nothing is held afterwards, and the group works, or can
// be configured anew if the bytes came from a member.

// script turns bytes into what a peer might send: frames with right checksums
// whose fields the fuzzer chose, and now and then a few bytes as they are.
func script(b []byte, epoch frame.Epoch) []byte {
	var out []byte
	valid := make([]byte, frame.HeaderBytes)
	new(frame.Header).Encode(valid)
	take := func(n int) []byte {
		n = min(n, len(b))
		p := b[:n]
		b = b[n:]
		return p
	}
	for len(b) > 0 && len(out) < maxScript {
		first := take(1)[0]
		if first&7 == 7 { // raw
			out = append(out, take(int(first>>3))...)
			continue
		}
		head := make([]byte, frame.HeaderBytes)
		copy(head, take(frame.HeaderBytes-12))
		payload := take(int(first) * 8)
		le := binary.LittleEndian
		copy(head, valid[:3]) // magic and version
		head[3] = first&7 + 1
		if first&8 == 0 { // the epoch that there is
			le.PutUint64(head[8:], epoch.Cluster)
			le.PutUint64(head[16:], uint64(epoch.Quorum))
		}
		if first&16 == 0 { // the length that there is
			le.PutUint32(head[4:], uint32(len(payload)))
		}
		le.PutUint32(head[88:], frame.Checksum(payload))
		le.PutUint32(head[92:], frame.Checksum(head[:92]))
		out = append(append(out, head...), payload...)
	}
	return out
}

const maxScript = 64 << 10

func sampleHeader() frame.Header {
	return frame.Header{
		Type: frame.TypeData, Phase: 1, Length: 1000, Epoch: frame.Epoch{Cluster: 0x1122334455667788, Quorum: -5},
		Seq: 7, Offset: 24, Total: 4096, Tag: 9, CRC: 0xdeadbeef,
		Call: frame.Call{Kind: pg.KindAllReduce, DType: tensor.Float32, Reduce: tensor.Max, Root: -1, Round: 3, Count: 1024, Sig: 0xcafe},
	}
}

// seeds are scripts to begin with: each type of frame, with a payload and without.
func addScripts(f *testing.F) {
	for typ := range byte(8) {
		for _, flags := range []byte{0, 8, 16} {
			one := append([]byte{typ | flags}, make([]byte, 300)...)
			f.Add(one)
			f.Add(append(one, one...))
		}
	}
	h := sampleHeader()
	raw := make([]byte, frame.HeaderBytes)
	h.Encode(raw)
	f.Add(append([]byte{1}, raw...))
	f.Add([]byte("\xffGET / HTTP/1.1\r\n\r\n"))
}

// fuzzed is a pair of backends that lives as long as the fuzzer's process.
func fuzzed(f *testing.F) (*world, *tap) {
	if *overTLS {
		f.Skip("it writes frames on the wire")
	}
	p := &tap{proxy: &proxy{}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	p.ln = ln
	f.Cleanup(func() {
		ln.Close()
		p.wg.Wait()
	})
	w := newWorldOf(f, []Options{{Transport: TransportTCP}, {Transport: TransportTCP, Advertise: ln.Addr().String()}})
	p.target = func() net.Addr { return w.backends[1].Addr() }
	p.wg.Go(p.accept)
	return w, p
}

// again is w for one call of the fuzz target: what fails is that call's.
func (w *world) again(t *testing.T) *world {
	v := *w
	v.t = t
	return &v
}

// FuzzStranger: a stranger connects to the port of a group's member, says a
// preamble or none, and then whatever. The group does not notice.
func FuzzStranger(f *testing.F) {
	addScripts(f)
	all, _ := fuzzed(f)
	all.configure(1)
	key := frame.EpochOf(pg.Epoch{Cluster: "test", QuorumID: 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		w := all.again(t)
		links := w.backends[1].Stats().Links
		c, err := net.Dial("tcp", w.backends[1].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if len(b)%4 > 0 {
			_, err = c.Write(append([]byte(frame.PreambleMagic), make([]byte, frame.NonceBytes)...))
		}
		if err == nil {
			_, err = c.Write(script(b, key))
		}
		if err == nil {
			err = c.(*net.TCPConn).CloseWrite()
		}
		_ = err // it was turned away already
		if err := c.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, io.LimitReader(c, 1<<20)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a stranger who has said all is still listened to")
		}
		eventually(t, "the stranger is forgotten", func() bool {
			s := w.backends[1].Stats()
			return s.Links <= links && s.Buffers == 0
		})
		w.reduceOK(w.everybody(), 100)
	})
}

// FuzzMember: a member of the group sends whatever, on the proven socket. Ops
// end, the next quorum works, and holds nothing of it.
func FuzzMember(f *testing.F) {
	addScripts(f)
	all, p := fuzzed(f)
	quorum := int64(0)
	f.Fuzz(func(t *testing.T, b []byte) {
		w := all.again(t)
		quorum++
		w.configure(quorum)
		op, _ := reduction(1, 5000, 0)
		work := w.backends[1].Submit(op)
		recv := w.backends[1].Submit(&pg.Op{Kind: pg.KindRecv, Out: fresh(1, 100), Peer: 0, Tag: 0})
		// It dies right after: a script may end within a frame, of which the rest
		// would be waited for.
		p.mu.Lock()
		_, err := p.out.Write(script(b, frame.EpochOf(pg.Epoch{Cluster: "test", QuorumID: quorum})))
		p.out.Close()
		p.seen = nil
		p.mu.Unlock()
		_ = err // it was turned away already
		theirs, _ := reduction(0, 5000, 0)
		other := w.backends[0].Submit(theirs)
		_, _ = wait(t, work), wait(t, other) // what a member says of itself is believed
		w.backends[1].Abort(pg.Epoch{Cluster: "test", QuorumID: quorum}, errors.New("over"))
		_ = wait(t, recv) // it may have got something
		quorum++
		w.configure(quorum)
		w.reduceOK(w.everybody(), 100)
		for _, b := range w.backends {
			eventually(t, "nothing is held", func() bool { return b.Stats().Buffers == 0 && b.Stats().Links == 1 })
		}
	})
}
