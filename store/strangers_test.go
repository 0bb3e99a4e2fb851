package store

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// Commands that come before the proof are refused by their first byte, however
// long they say they are.
func TestNothingIsReadBeforeTheProof(t *testing.T) {
	t.Parallel()
	for what, send := range map[string]string{
		"a multi-set":  validate + "0b 0000010000000000",
		"a set":        validate + "01" + k + "0000800000000000",
		"a ping":       validate + "0d 78563412",
		"no such":      validate + "63",
		"another auth": validate + validate,
	} {
		nc, s := talk(t, ServerConfig{Guarded: true})
		if _, err := nc.Write(unhex(t, send)); err != nil {
			t.Fatal(err)
		}
		sent := 0
		for part := make([]byte, 1<<20); sent < 64; sent++ {
			if _, err := nc.Write(part); err != nil {
				break
			}
		}
		if sent == 64 {
			t.Errorf("%s: %d MiB were taken before the proof", what, sent)
		}
		if held := s.purse.Taken(); held != 0 {
			t.Errorf("%s: %d bytes of the members' purse are held", what, held)
		}
	}
}

// lines counts what is logged.
type lines struct {
	mu sync.Mutex
	n  int
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += bytes.Count(p, []byte("\n"))
	return len(p), nil
}

// Clients that say nothing, or half of a greeting, do not keep a member out, and
// fill no log.
func TestStrangersKeepNoPlace(t *testing.T) {
	t.Parallel()
	logged := &lines{}
	token := []byte("token")
	_, s := talk(t, ServerConfig{Token: token, MaxConns: 64, Log: zerolog.New(logged)})
	beginnings := []string{"", "00", validate, validate + "e0", validate + "e0 0000"}
	turned := 0
	for i := range 400 {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", s.Addr())
		if err != nil { // turned away so soon
			turned++
			continue
		}
		defer c.Close()
		_, _ = c.Write(unhex(t, beginnings[i%len(beginnings)])) // it may be cut already
		if i >= 16 {
			if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, c); err == nil || !os.IsTimeout(err) {
				turned++
			}
		}
	}
	if turned < 380 {
		t.Errorf("%d of the last 384 strangers were turned away, want nearly all", turned)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	member, err := Dial(ctx, s.Addr(), ClientConfig{Token: token})
	if err != nil {
		t.Fatalf("a member beside the strangers: %v", err)
	}
	defer member.Close()
	if err := member.Set(ctx, "k", nil); err != nil {
		t.Error(err)
	}
	logged.mu.Lock()
	defer logged.mu.Unlock()
	if logged.n > 2*sampleBurst {
		t.Errorf("%d lines logged, want at most %d", logged.n, 2*sampleBurst)
	}
}

// A member counts the keys that are its own.
func TestNumKeysOfAToken(t *testing.T) {
	t.Parallel()
	_, s := talk(t, ServerConfig{Guarded: true})
	if err := s.Allow("job/1", []byte("token")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	for _, key := range []string{"job/1/a", "job/1/b", "job/2/a", "job/10/a"} {
		if err := s.Local().Set(ctx, key, nil); err != nil {
			t.Fatal(err)
		}
	}
	member, err := Dial(ctx, s.Addr(), ClientConfig{Token: []byte("token")})
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	if n, err := member.NumKeys(ctx); err != nil || n != 2 {
		t.Errorf("%d keys, %v, want 2 of 4", n, err)
	}
}

// One host's commands hold a part of what all may hold.
func TestPurseOfAHost(t *testing.T) {
	t.Parallel()
	p := newServer(ServerConfig{MaxBytes: 1 << 30}).purse
	hosts := []string{"10.0.0.1", "10.0.0.2"}
	took := make([]int64, len(hosts))
	for i, ip := range hosts {
		d := decoder{purse: p, host: netip.MustParseAddr(ip)}
		for d.take(1<<20) == nil {
			took[i] += 1 << 20
		}
		if want := int64(1<<30+1<<29) / hostShare; took[i] != want {
			t.Errorf("%s holds %d bytes, want %d", ip, took[i], want)
		}
		defer d.done()
	}
}

// FuzzGreeting gives bytes to a guarded server that holds one token: whatever they
// are, they are no proof of it, and nothing is held, kept or answered for them but
// a refusal and a challenge.
func FuzzGreeting(f *testing.F) {
	token := []byte("token")
	id := idOf(token)
	known := append(unhex(f, validate+"e0"+strings.Repeat("00", nonceBytes)), id[:]...)
	for _, seed := range [][]byte{
		nil, unhex(f, validate), unhex(f, validate+"e0"+strings.Repeat("ab", 48)), known,
		append(known, make([]byte, proofBytes)...),
		unhex(f, validate+"0b 0100000000000000"+k+"0000000000000000"), unhex(f, "03"+k),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		cfg := ServerConfig{MaxBytes: 1 << 20, Guarded: true, AuthWait: time.Microsecond}
		cfg.defaults()
		s := newServer(cfg)
		s.grants.allow("", token)
		theirs, ours := net.Pipe()
		c := newServerConn(s, ours)
		done := make(chan error, 1)
		go func() { done <- c.serve() }()
		answered := make(chan []byte, 1)
		go func() {
			all, _ := io.ReadAll(theirs) // the pipe ends both ways
			answered <- all
		}()
		theirs.Write(in)
		theirs.Close()
		if err := <-done; err == nil {
			t.Fatal("serve ended without a reason")
		}
		const most = 1 + nonceBytes + proofBytes + 1
		if all := <-answered; len(all) > most || len(all) > 0 && all[0] != authChallenge && all[0] != authRefused {
			t.Fatalf("answered % x, want a challenge or a refusal", all)
		}
		if c.d.r != nil || c.mu.out != nil {
			t.Fatal("a client that has proved nothing has buffers")
		}
		if n := len(s.t.mu.values); n != 0 || s.purse.Taken() != 0 || s.newcomers.Taken() != 0 {
			t.Fatalf("%d keys, %d bytes and %d places are held, want none", n, s.purse.Taken(), s.newcomers.Taken())
		}
	})
}
