package store

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// talk is a raw connection to a server that runs until the test ends.
func talk(t *testing.T, cfg ServerConfig) (net.Conn, *Server) {
	t.Helper()
	s, err := NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context()) }()
	nc, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() {
		nc.Close()
		s.Close()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return nc, s
}

// unhex reads bytes as a test writes them: hex, spaces, and 'text'.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	var out []byte
	for i, part := range strings.Split(s, "'") {
		if i%2 == 1 {
			out = append(out, part...)
			continue
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(part), ""))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	return out
}

// expect reads exactly want.
func expect(t *testing.T, nc net.Conn, what, want string) {
	t.Helper()
	b := unhex(t, want)
	got := make([]byte, len(b))
	if n, err := io.ReadFull(nc, got); err != nil || !bytes.Equal(got, b) {
		t.Fatalf("%s: got % x, %v, want % x", what, got[:n], err, b)
	}
}

const (
	validate = "00 cef7853c "
	// k is the key "/k", as PyTorch's clients send it.
	k = "0200000000000000 '/k' "
	j = "0200000000000000 '/j' "
)

// Byte for byte what PyTorch's client sends and its server answers, from the
// protocol's description and not from our encoder.
func TestWireBytes(t *testing.T) {
	nc, _ := talk(t, ServerConfig{})
	if _, err := nc.Write(unhex(t, validate)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, send, answer string }{
		{"PING", "0d 78563412", "78563412"},
		{"GET absent", "03" + k, "0000000000000000"},
		{"SET", "01" + k + "0300000000000000 'abc'", ""},
		{"GET", "03" + k, "0300000000000000 'abc'"},
		{"COMPARE_SET wrong", "02" + k + "0100000000000000 'x' 0100000000000000 'y'", "0300000000000000 'abc'"},
		{"COMPARE_SET right", "02" + k + "0300000000000000 'abc' 0100000000000000 'y'", "0100000000000000 'y'"},
		{"COMPARE_SET absent", "02" + j + "0100000000000000 'x' 0100000000000000 'y'", "0100000000000000 'x'"},
		{"ADD", "04" + j + "feffffffffffffff", "feffffffffffffff"},
		{"GET of a sum", "03" + j, "0200000000000000 '-2'"},
		{"CHECK there", "05 0200000000000000" + k + j, "00"},
		{"CHECK not there", "05 0200000000000000" + k + "0100000000000000 'z'", "01"},
		{"WAIT there", "06 0100000000000000" + k, "00"},
		{"GETNUMKEYS", "07", "0200000000000000"},
		{"APPEND", "09" + k + "0100000000000000 'z'", ""},
		{"MULTI_SET", "0b 0100000000000000" + j + "0000000000000000", ""},
		{"MULTI_GET", "0a 0200000000000000" + k + j, "0200000000000000 'yz' 0000000000000000"},
		{"DELETE_KEY", "08" + k, "0100000000000000"},
		{"DELETE_KEY again", "08" + k, "0000000000000000"},
		{"CANCEL_WAIT of none", "0c", "01"},
		{"WAIT, cancelled", "06 0100000000000000" + k + "0c", "01"},
		{"WAIT, then the key", "06 0100000000000000" + k + "01" + k + "0000000000000000", "00"},
		{"QUEUE_LEN", "10" + k, "0000000000000000"},
		{"QUEUE_POP of none", "0f" + k, "0000000000000000"},
		{"QUEUE_PUSH", "0e" + k + "0100000000000000 'e'", ""},
		{"QUEUE_LEN of one", "10" + k, "0100000000000000"},
		{"QUEUE_POP", "0f" + k, "0100000000000000 0100000000000000 'e'"},
		{"our DELETE_PREFIX", "e1 0100000000000000 '/'", "0200000000000000"},
		{"our AUTH, unguarded", "e0" + strings.Repeat("00", 48), "00"},
	} {
		if _, err := nc.Write(unhex(t, c.send)); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		expect(t, nc, c.what, c.answer)
	}
}

// What breaks the protocol ends the connection, and no other.
func TestServerRefuses(t *testing.T) {
	for what, send := range map[string]string{
		"PyTorch 1.13, whose ADD is 3":    "03 0500000000000000 'init/' 0100000000000000",
		"PyTorch 1.13, whose SET is 0":    "00 0200000000000000 '/k' 0000000000000000",
		"a wrong magic number":            "00 00000000",
		"an HTTP client":                  "'GET / HTTP/1.1' 0d0a0d0a",
		"an unknown command":              validate + "63",
		"VALIDATE twice":                  validate + validate,
		"a key over the bound":            validate + "03 0120000000000000",
		"a value over the bound":          validate + "01" + k + "0100800000000000",
		"a length over everything":        validate + "03 ffffffffffffffff",
		"keys over the bound":             validate + "05 0100020000000000",
		"a sum of what is no number":      validate + "01" + k + "0100000000000000 'x' 04" + k + "0100000000000000",
		"two waits at a time":             validate + "06 0100000000000000" + k + "06 0100000000000000" + k,
		"a guarded server's proof, early": validate + "e0" + strings.Repeat("00", 48) + "e0" + strings.Repeat("00", 47),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			nc, s := talk(t, ServerConfig{})
			if _, err := nc.Write(unhex(t, send)); err != nil {
				t.Fatal(err)
			}
			if what == "a guarded server's proof, early" {
				expect(t, nc, what, "00") // unguarded; the rest is a command cut short
				nc.(*net.TCPConn).CloseWrite()
			}
			if n, err := nc.Read(make([]byte, 1)); err == nil {
				t.Fatalf("got %d bytes, want a closed connection", n)
			}
			if err := s.Local().Set(t.Context(), "k", nil); err != nil {
				t.Fatalf("the store after it: %v", err)
			}
		})
	}
}

// A length that was announced costs nothing before its bytes come.
func TestAnnouncedLengthAllocatesNothing(t *testing.T) {
	announce := unhex(t, "01"+k+"0000800000000000 'abc'") // 8 MiB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const rounds = 16
	for range rounds {
		d := decoder{r: bufio.NewReader(bytes.NewReader(announce))}
		if _, err := d.command(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("got %v, want %v", err, io.ErrUnexpectedEOF)
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / rounds; got > 512<<10 {
		t.Fatalf("got %d bytes allocated for 3 bytes that came, want less than 512 KiB", got)
	}
}

// One command's keys and values are bounded together, too.
func TestCommandBytesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 256 MiB")
	}
	value := append(unhex(t, k+"0000800000000000"), make([]byte, MaxValueBytes)...)
	endless := io.MultiReader(bytes.NewReader(unhex(t, "0b ff00000000000000")), &repeat{b: value})
	d := decoder{r: bufio.NewReader(endless)}
	if _, err := d.command(); !errors.Is(err, errProtocol) {
		t.Fatalf("got %v, want %v", err, errProtocol)
	}
}

// What all connections announce together is bounded when it comes, too.
func TestPurse(t *testing.T) {
	nc, s := talk(t, ServerConfig{MaxBytes: 1 << 20})
	other, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.SetDeadline(time.Now().Add(20 * time.Second))
	big := append(unhex(t, validate+"01"+k+"0000100000000000"), make([]byte, 700<<10)...) // of 1 MiB
	for _, c := range []net.Conn{nc, other} {
		go c.Write(big)
	}
	// One of them is dropped; then the other has room, and is not.
	ended := make(chan net.Conn, 2)
	for _, c := range []net.Conn{nc, other} {
		go func() {
			c.Read(make([]byte, 1))
			ended <- c
		}()
	}
	<-ended
	if err := s.Local().Set(t.Context(), "k", nil); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	other.Close()
	<-ended
}

// repeat is b without end.
type repeat struct {
	b  []byte
	at int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.b[r.at:])
	r.at = (r.at + n) % len(r.b)
	return n, nil
}

// encode is the inverse of the decoder, written for the fuzzer alone.
func encode(c command) []byte {
	b := []byte{byte(c.op)}
	entries := func() {
		each := len(c.values) / max(len(c.keys), 1)
		for i, key := range c.keys {
			b = appendBlob(b, key)
			for _, value := range c.values[i*each : (i+1)*each] {
				b = appendBlob(b, value)
			}
		}
	}
	switch c.op {
	case opNumKeys, opCancelWait:
	case opValidate, opPing:
		b = appendUint32(b, c.nonce)
	case opCheck, opWait, opMultiGet, opMultiSet:
		b = appendUint64(b, uint64(len(c.keys)))
		entries()
	case opAuth:
		b = append(append(b, c.auth.nonce[:]...), c.auth.id[:]...)
	case opAdd:
		entries()
		b = appendUint64(b, uint64(c.delta))
	default:
		entries()
	}
	return b
}

// FuzzDecoder feeds a server's decoder. What it takes is within the bounds,
// and is exactly what came.
func FuzzDecoder(f *testing.F) {
	for _, seed := range []string{
		"", "0d 78563412", "07 0c", "03" + k, "01" + k + "0300000000000000 'abc'",
		"02" + k + "0100000000000000 'x' 0100000000000000 'y'", "04" + k + "feffffffffffffff",
		"05 0200000000000000" + k + j, "0b 0100000000000000" + j + "0000000000000000",
		"e0" + strings.Repeat("ab", 48), "e1" + k, "0b ffffffffffffffff", "06 0000020000000000" + k,
	} {
		f.Add(unhex(f, seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		d := decoder{r: bufio.NewReader(bytes.NewReader(in))}
		var again []byte
		for {
			c, err := d.command()
			if err != nil {
				break
			}
			checkCommand(t, c)
			again = append(again, encode(c)...)
		}
		if !bytes.HasPrefix(in, again) {
			t.Fatalf("got % x back, want a prefix of % x", again, in)
		}
	})
}

func checkCommand(t *testing.T, c command) {
	t.Helper()
	if len(c.keys) > MaxKeys || (c.op == opMultiSet && len(c.values) != len(c.keys)) {
		t.Fatalf("command %d: %d keys, %d values", c.op, len(c.keys), len(c.values))
	}
	for _, key := range c.keys {
		if len(key) > MaxKeyBytes {
			t.Fatalf("command %d: key of %d bytes", c.op, len(key))
		}
	}
	for _, value := range c.values {
		if len(value) > MaxValueBytes {
			t.Fatalf("command %d: value of %d bytes", c.op, len(value))
		}
	}
}

// FuzzServer gives a whole connection's bytes to a server: it must not panic,
// must end the connection once the bytes end, and must serve others after it.
func FuzzServer(f *testing.F) {
	for _, seed := range []string{
		validate + "06 0100000000000000" + k + "01" + k + "0000000000000000",
		validate + "06 0100000000000000" + k + "0e" + k + "0000000000000000" + "0f" + k,
		validate + "06 0100000000000000" + k + "0c 0c 07",
		validate + "04" + k + "ffffffffffffff7f 04" + k + "0100000000000000",
		"03" + k,
	} {
		f.Add(unhex(f, seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		cfg := ServerConfig{MaxBytes: 1 << 20}
		cfg.defaults()
		s := newServer(cfg)
		theirs, ours := net.Pipe()
		done := make(chan error, 1)
		go func() { done <- newServerConn(s, ours).serve() }()
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			io.Copy(io.Discard, theirs)
		}()
		theirs.Write(in)
		theirs.Close()
		if err := <-done; err == nil {
			t.Fatal("serve ended without a reason")
		}
		<-drained
		if err := s.t.set("after", nil); err != nil {
			t.Fatalf("the store after it: %v", err)
		}
		if n := len(s.t.mu.waiters); n != 0 {
			t.Fatalf("got %d waiters left", n)
		}
		if held := s.purse.Taken(); held != 0 {
			t.Fatalf("%d bytes of the purse are still held, want none", held)
		}
		if s.t.mu.bytes > s.t.maxBytes {
			t.Fatalf("got %d bytes kept, want at most %d", s.t.mu.bytes, s.t.maxBytes)
		}
	})
}
