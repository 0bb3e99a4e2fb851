package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/testkit"
)

// attackFor is a least time: a member's round is waited for.
var attackFor = flag.Duration("hostile.strangers", 100*time.Millisecond, "how long each attack of TestStrangers lasts")

const (
	mostGrowth  = 32 << 20 // of a victim's memory, in bytes
	mostThrough = 64 << 20 // bytes that one connection sends, if it may
	silent      = 4500     // connections
)

type dialing func(ctx context.Context) (net.Conn, error)

// attack is what strangers do to a victim until ctx ends. The number is of the
// list of attacks that this suite grew from.
type attack struct {
	number int
	name   string
	crowd  bool // thousands of connections: one such attack at a time has files enough
	run    func(ctx context.Context, v *victim)
}

var crowdAlone sync.Mutex

// hold opens n connections, which say the beginnings in turn and then nothing, until
// ctx ends.
func hold(ctx context.Context, dial dialing, n int, beginnings ...string) {
	var conns []net.Conn
	for i := 0; i < n && ctx.Err() == nil; i++ {
		c, err := dial(ctx)
		if err != nil {
			continue // turned away so soon
		}
		conns = append(conns, c)
		_ = c.SetDeadline(time.Now().Add(5 * time.Second)) // it may be cut already
		_, _ = c.Write([]byte(beginnings[i%len(beginnings)]))
	}
	<-ctx.Done()
	for _, c := range conns {
		if t, ok := c.(interface{ NetConn() net.Conn }); ok {
			c = t.NetConn() // without a farewell to who does not read
		}
		c.Close()
	}
}

// flood keeps n connections that each say head, and then piece again and again, as
// long as it is taken.
func flood(ctx context.Context, dial dialing, n int, head string, piece []byte) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				if c, err := dial(ctx); err == nil {
					stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
					_, err = c.Write([]byte(head))
					for sent := 0; err == nil && sent < mostThrough; sent += len(piece) {
						_, err = c.Write(piece)
					}
					stop()
					c.Close()
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
}

// request is the head of one for the donor, with more header lines.
func request(method, target, more string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: d\r\n" + more
}

const manifest = "/v1/manifest?version=7-1-c"

// storeAttacks are on the store's port.
func storeAttacks() []attack {
	magic := "\x00" + string(binary.LittleEndian.AppendUint32(nil, 0x3C85F7CE))
	long := func(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }
	multiSet := magic + "\x0b" + long(32)
	pair := []byte(long(2) + "/k" + long(8<<20) + strings.Repeat("x", 8<<20))
	return []attack{
		{number: 1, name: "multi-set before the proof", run: func(ctx context.Context, v *victim) { flood(ctx, v.dialStore, 4, multiSet, pair) }},
		{number: 2, name: "the same, 18 times", run: func(ctx context.Context, v *victim) { flood(ctx, v.dialStore, 18, multiSet, pair) }},
		{number: 3, name: "another command, and bytes", run: func(ctx context.Context, v *victim) { flood(ctx, v.dialStore, 2, magic+"\x0c", pair) }},
		{number: 4, crowd: true, name: "silence", run: func(ctx context.Context, v *victim) {
			hold(ctx, v.dialStore, 2*silent, "", magic[:3], magic, magic+"\xe0", magic+"\xe0"+strings.Repeat("n", 48))
		}},
	}
}

// storeTLSAttacks are on the store's port where it speaks TLS.
func storeTLSAttacks() []attack {
	hello := firstRecord()
	record := "\x17\x03\x03\x40\x00"
	return []attack{
		{number: 64, crowd: true, name: "silence within the handshake", run: func(ctx context.Context, v *victim) {
			hold(ctx, v.dialStore, 2*silent, "", hello[:1], hello[:5], hello[:len(hello)/2], hello, hello+record)
		}},
		{number: 65, name: "handshakes without a certificate, and bytes", run: func(ctx context.Context, v *victim) {
			flood(ctx, underTLS(v.dialStore), 8, "\x00", bytes.Repeat([]byte("x"), 1<<20))
		}},
		{number: 66, name: "a handshake that does not end", run: func(ctx context.Context, v *victim) {
			flood(ctx, v.dialStore, 8, "\x16\x03\x01\x04\x00\x01\x00\xff\xff"+strings.Repeat("x", 1020),
				[]byte("\x16\x03\x03\x04\x00"+strings.Repeat("x", 1024)))
		}},
		{number: 67, name: "junk behind a hello", run: func(ctx context.Context, v *victim) {
			flood(ctx, v.dialStore, 8, hello, bytes.Repeat([]byte("junk"), 64<<10))
		}},
	}
}

// dataTLSAttacks are on the data plane's port where it speaks TLS.
func dataTLSAttacks() []attack {
	hello := firstRecord()
	return []attack{
		{number: 68, crowd: true, name: "silence within the handshake", run: func(ctx context.Context, v *victim) {
			hold(ctx, v.dialData, 2*silent, hello[:1], hello[:5], hello[:len(hello)/2], hello, hello+"\x17\x03\x03\x40\x00")
		}},
		{number: 69, name: "handshakes without a certificate, and bytes", run: func(ctx context.Context, v *victim) {
			flood(ctx, underTLS(v.dialData), 8, "SKERRYT", bytes.Repeat([]byte("x"), 1<<20))
		}},
		{number: 70, name: "a handshake that does not end", run: func(ctx context.Context, v *victim) {
			flood(ctx, v.dialData, 8, "\x16\x03\x01\x04\x00\x01\x00\xff\xff"+strings.Repeat("x", 1020),
				[]byte("\x16\x03\x03\x04\x00"+strings.Repeat("x", 1024)))
		}},
		{number: 71, name: "junk behind a hello", run: func(ctx context.Context, v *victim) {
			flood(ctx, v.dialData, 8, hello, bytes.Repeat([]byte("junk"), 64<<10))
		}},
	}
}

// firstRecord is what a client of TLS says first.
func firstRecord() string {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() {
		_, _ = nobody(ours).Write(nil) // cut below
		ours.Close()
	}()
	head := make([]byte, 5)
	_, err := io.ReadFull(theirs, head)
	body := make([]byte, binary.BigEndian.Uint16(head[3:]))
	if err == nil {
		_, err = io.ReadFull(theirs, body)
	}
	if err != nil {
		panic(err)
	}
	return string(append(head, body...))
}

// healAttacks are on the donor's port.
func healAttacks() []attack {
	const form = "Content-Type: multipart/form-data; boundary=b\r\n"
	part := []byte("--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n" + strings.Repeat("x", 1<<20) + "\r\n")
	drip := "Content-Length: 100\r\n\r\nab"
	many := strings.Repeat("X-A: b\r\n", 100_000)
	ranges := "Range: bytes=" + strings.Repeat("0-1,", 5000) + "0-1\r\n\r\n"
	once := func(number int, name, head string) attack {
		return attack{number: number, name: name, run: func(ctx context.Context, v *victim) { flood(ctx, v.dialHeal, 4, head, []byte("x")) }}
	}
	return []attack{
		{number: 5, name: "multipart bodies", run: func(ctx context.Context, v *victim) {
			flood(ctx, v.dialHeal, 2, request("GET", manifest, form+"Content-Length: 1099511627776\r\n\r\n"), part)
		}},
		{number: 6, name: "dripped bodies", run: func(ctx context.Context, v *victim) {
			hold(ctx, v.dialHeal, 1030, request("GET", manifest, form+drip))
		}},
		{number: 7, name: "no certificate, no proof", run: func(ctx context.Context, v *victim) {
			flood(ctx, v.dialHeal, 4, request("GET", manifest, "\r\n"), []byte(request("GET", manifest, "\r\n")))
		}},
		{number: 52, name: "a header without end", run: func(ctx context.Context, v *victim) {
			flood(ctx, v.dialHeal, 4, request("GET", manifest, "X: "), bytes.Repeat([]byte("x"), 1<<20))
		}},
		once(53, "100,000 headers", request("GET", manifest, many)),
		{number: 54, name: "a line of 5 MiB", run: func(ctx context.Context, v *victim) {
			flood(ctx, v.dialHeal, 4, "GET /", bytes.Repeat([]byte("x"), 5<<20))
		}},
		once(55, "length and chunks", request("POST", manifest, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n")),
		once(56, "two lengths, one negative", request("POST", manifest, "Content-Length: 5\r\nContent-Length: -1\r\n\r\n")),
		{number: 57, name: "a TiB announced", run: func(ctx context.Context, v *victim) {
			flood(ctx, v.dialHeal, 4, request("POST", "/v2/data", "Content-Length: 1099511627776\r\n\r\n"), bytes.Repeat([]byte("x"), 1<<20))
		}},
		{number: 58, name: "a form in chunks", run: func(ctx context.Context, v *victim) {
			head := request("POST", "/v1/state", form+"Transfer-Encoding: chunked\r\n\r\n")
			flood(ctx, v.dialHeal, 4, head, []byte(fmt.Sprintf("%x\r\n%s\r\n", len(part), part)))
		}},
		{number: 59, name: "headers that never end", run: func(ctx context.Context, v *victim) {
			hold(ctx, v.dialHeal, 600, "", "G", request("GET", manifest, ""))
		}},
		{number: 60, name: "bodies that never end", run: func(ctx context.Context, v *victim) {
			hold(ctx, v.dialHeal, 600, request("OPTIONS", "*", drip), request("GET", "/nothing", drip))
		}},
		once(61, "5,000 ranges", request("GET", manifest, ranges)),
		once(62, "a path above", request("GET", "/v1/../../../etc/passwd", "\r\n")),
		once(63, "CONNECT", request("CONNECT", "127.0.0.1:1", "\r\n")),
	}
}

// dataAttacks are on the data plane's port.
func dataAttacks() []attack {
	preamble := "SKERRYT\x05" + strings.Repeat("n", 16)
	junk := bytes.Repeat([]byte("junk"), 64<<10)
	return []attack{
		{number: 8, crowd: true, name: "silence", run: func(ctx context.Context, v *victim) { hold(ctx, v.dialData, silent, "", preamble[:5], preamble) }},
		{number: 9, name: "junk", run: func(ctx context.Context, v *victim) {
			var both sync.WaitGroup
			both.Go(func() { flood(ctx, v.dialData, 8, preamble, junk) })
			flood(ctx, v.dialData, 8, "", junk)
			both.Wait()
		}},
		{number: 10, name: "1,500 idle", run: func(ctx context.Context, v *victim) { hold(ctx, v.dialData, 1500, preamble) }},
	}
}

// TestStrangers: what no proof stands behind costs a replica's ports next to
// nothing, and keeps no member out of store, quorum and heal; with a token alone,
// and with certificates.
func TestStrangers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("dozens of attacks of some seconds: not with -short")
	}
	whole := guardtest.New(t).Options(t, guard.Replica, "replica")
	for name, o := range map[string]guard.Options{"token": {TokenFile: whole.TokenFile}, "TLS": whole} {
		rest := slices.Concat(storeAttacks(), dataAttacks())
		if name == "TLS" {
			rest = slices.Concat(rest, storeTLSAttacks(), dataTLSAttacks())
		}
		t.Run(name, func(t *testing.T) {
			if name == "token" { // TLS has its attacks, and more
				testkit.Long(t)
			}
			t.Parallel()
			attackEach(t, o, rest)
		})
		t.Run(name+", donor", func(t *testing.T) {
			if name == "token" {
				testkit.Long(t)
			}
			t.Parallel()
			attackEach(t, o, healAttacks())
		})
	}
}

// attackEach starts a victim and has it bear one attack after the other.
func attackEach(t *testing.T, o guard.Options, attacks []attack) {
	t.Helper()
	v := startVictim(t, o)
	for range 3 { // pools and buffers grow to their size
		if err := v.train(t); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range attacks {
		t.Run(fmt.Sprintf("%d %s", a.number, a.name), func(t *testing.T) { v.bear(t, a) })
	}
}

// bear looks at the victim while strangers attack.
func (v *victim) bear(t *testing.T, a attack) {
	if a.crowd {
		crowdAlone.Lock()
		defer crowdAlone.Unlock()
	}
	before, err := v.memory()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var strangers sync.WaitGroup
	strangers.Go(func() { a.run(ctx, v) })
	most, rounds := before, 0
	watched := make(chan struct{})
	strangers.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			if now, err := v.memory(); err == nil {
				most = max(most, now)
			}
			select {
			case <-tick.C:
			case <-watched:
				return
			}
		}
	})
	time.Sleep(*attackFor / 3) // the strangers are there first
	var failed error
	for began := time.Now(); failed == nil && (rounds == 0 || time.Since(began) < *attackFor); rounds++ {
		failed = v.train(t)
		time.Sleep(*attackFor / 30) // the processors are the strangers'
	}
	cancel()
	close(watched)
	strangers.Wait()
	t.Logf("memory %d to %d MiB, %d rounds beside it", before>>20, most>>20, rounds)
	if failed != nil {
		t.Fatalf("beside the attack: %v", failed)
	}
	if most-before > mostGrowth {
		t.Errorf("memory grew from %d to %d MiB, want less than %d more", before>>20, most>>20, mostGrowth>>20)
	}
	if files, err := v.files(); err != nil || len(files) > 0 {
		t.Errorf("files %v, %v, want none", files, err)
	}
}
