package store_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/internal/burst"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/certs"
	"github.com/skerry-ft/skerry/store/storetest"
)

const job = "vision"

// replicaOf is a replica's TLS that is good for job.
func replicaOf(t testing.TB, c *guardtest.Cluster, job string) *store.TLS {
	t.Helper()
	return tlsOf(t, c.PartyOptions(t, guard.Party{Role: guard.Replica, Job: job}, "replica-"+job), job)
}

// tlsOf is the TLS of whatever o names.
func tlsOf(t testing.TB, o guard.Options, job string) *store.TLS {
	t.Helper()
	return certs.Of(guardtest.Open(t, o), o, job)
}

func TestTLSConforms(t *testing.T) {
	both := replicaOf(t, guardtest.New(t), job)
	storetest.Run(t, storetest.Options{PrefixBytes: len("/")}, func(t *testing.T) storetest.Opener {
		s := serve(t, store.ServerConfig{TLS: both})
		return func() store.Store { return dial(t, s, store.ClientConfig{TLS: both}) }
	})
}

// A replica's store where certificates are: TLS, and the quorum's token inside.
func TestTLSOpenGuarded(t *testing.T) {
	both := replicaOf(t, guardtest.New(t), job)
	storetest.Run(t, storetest.Options{PrefixBytes: len("/job/7/0/")}, func(t *testing.T) storetest.Opener {
		s := serve(t, store.ServerConfig{Guarded: true, TLS: both})
		if err := s.Allow("job/7", []byte("token")); err != nil {
			t.Fatal(err)
		}
		return func() store.Store {
			c, err := store.Open(t.Context(), s.Addr()+"/job/7/0", store.ClientConfig{Token: []byte("token"), TLS: both})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
	})
}

// TestTLSRefused: whoever may not come in is refused at once, not tried again until
// the time is over, and either side says why.
func TestTLSRefused(t *testing.T) {
	t.Parallel()
	c, stranger := guardtest.New(t), guardtest.New(t)
	member, another := replicaOf(t, c, job), replicaOf(t, c, "text")
	foreign := replicaOf(t, stranger, job)
	operator := tlsOf(t, c.Options(t, guard.Operator, "operator"), job)
	server := tlsOf(t, c.Options(t, guard.Lighthouse, "lighthouse"), job)
	elsewhere := c.Options(t, guard.Replica, "elsewhere")
	c.Sign(t, guard.Party{Role: guard.Replica}, "elsewhere", "example.org")
	// Who shows the certificate of another CA and believes ours, and who shows none.
	mixed := func(show *store.TLS) *store.TLS {
		return &store.TLS{Server: member.Server, Client: func(host string) *tls.Config {
			conf := member.Client(host)
			conf.Certificates = nil
			if show != nil {
				conf.Certificates = show.Client(host).Certificates
			}
			return conf
		}}
	}
	const refused, how = "refused this process's certificate", "SKERRY_TLS_DATA=false"
	for _, tc := range []struct {
		what           string
		server, client *store.TLS
		token          string
		want           string // of the client's error
		logged         string
	}{
		{"a client of another CA", member, mixed(foreign), "", refused, "unknown authority"},
		{"no certificate", member, mixed(nil), "", refused, "didn't provide a certificate"},
		{"an operator", member, mixed(operator), "", refused, "has role operator, want replica"},
		{"a lighthouse", member, mixed(server), "", refused, "has role lighthouse, want replica"},
		{"another job's replica", member, mixed(another), "", refused, `bound to job \"text\", and this is job \"vision\"`},
		{"a plain client", member, nil, "", how, "the client speaks no TLS"},
		{"a plain client with a token", member, nil, "token", how, "the client speaks no TLS"},
		{"a plain server", nil, member, "", how, "the client speaks TLS, and this store does not"},
		{"a server of another CA", foreign, member, "", "unknown authority", "bad certificate"},
		{"a lighthouse that serves", server, member, "", "has role lighthouse, want replica", "bad certificate"},
		{"another job's server", another, member, "", `bound to job "text"`, "bad certificate"},
		{"another host's server", tlsOf(t, elsewhere, job), member, "", "certificate for 127.0.0.1", "bad certificate"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			log := &lockedBuffer{}
			s := serve(t, store.ServerConfig{TLS: tc.server, Log: log.logger()})
			got, err := store.Dial(within(t), s.Addr(), store.ClientConfig{TLS: tc.client, Token: []byte(tc.token)})
			if err == nil {
				got.Close()
			}
			if !errors.Is(err, store.ErrTLS) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %v with %q, and not by a deadline", err, store.ErrTLS, tc.want)
			}
			log.await(t, tc.logged)
		})
	}
}

// TestTLSHidesValues: between client and server nothing is to be read of what is
// said, neither keys nor values; without TLS all of it is.
func TestTLSHidesValues(t *testing.T) {
	t.Parallel()
	both := replicaOf(t, guardtest.New(t), job)
	key, value := "the name of the key", []byte("what nobody else may read")
	for _, conf := range []*store.TLS{nil, both} {
		s := serve(t, store.ServerConfig{Token: []byte("token"), TLS: conf})
		p := sniff(t, s.Addr())
		c, err := store.Dial(within(t), p.addr, store.ClientConfig{Token: []byte("token"), TLS: conf})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Set(within(t), key, value); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Get(within(t), key); err != nil || !bytes.Equal(got, value) {
			t.Fatalf("got %q, %v", got, err)
		}
		c.Close()
		if seen := p.seen(); bytes.Contains(seen, value) != (conf == nil) || bytes.Contains(seen, []byte(key)) != (conf == nil) {
			t.Errorf("TLS %t: the wire shows key or value: %t", conf != nil, conf != nil)
		}
	}
}

// TestTLSRenewal: new connections are made with renewed files, those that stand
// stand.
func TestTLSRenewal(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	s := serve(t, store.ServerConfig{TLS: replicaOf(t, c, job)})
	o := c.Options(t, guard.Replica, "client")
	conf := tlsOf(t, o, job)
	before := dial(t, s, store.ClientConfig{TLS: conf})
	try := func() error {
		again, err := store.Dial(within(t), s.Addr(), store.ClientConfig{TLS: conf})
		if err == nil {
			again.Close()
		}
		return err
	}
	for _, role := range []guard.Role{guard.Operator, guard.Replica} {
		c.Sign(t, guard.Party{Role: role}, "client")
		until(t, func() error {
			err := try()
			if errors.Is(err, store.ErrTLS) == (role == guard.Operator) && (err == nil) == (role == guard.Replica) {
				return nil
			}
			return fmt.Errorf("with a certificate of role %s: %v", role, err)
		})
		if err := before.Set(within(t), "k", nil); err != nil {
			t.Errorf("the connection that stood: %v", err)
		}
	}
}

// TestTLSDialEnds: a server that takes the connection and says nothing holds a
// client no longer than its ctx.
func TestTLSDialEnds(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	conf := replicaOf(t, guardtest.New(t), job)
	if c, err := store.Dial(ctx, ln.Addr().String(), store.ClientConfig{TLS: conf}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v, want %v", c, err, context.DeadlineExceeded)
	}
}

// TestTLSOfUsers: users of a shared server agree on it, and half of a TLS is none.
func TestTLSOfUsers(t *testing.T) {
	t.Parallel()
	both := replicaOf(t, guardtest.New(t), job)
	first, err := store.NewShared(store.ServerConfig{Listen: freeAddress(t), TLS: both})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if second, err := store.NewShared(store.ServerConfig{Listen: first.Addr()}); err == nil || !strings.Contains(err.Error(), "TLS = false, want true") {
		t.Errorf("a plain user beside one with TLS: %v, %v", second, err)
	}
	half := &store.TLS{Server: both.Server}
	if _, err := store.NewServer(store.ServerConfig{TLS: half}); err == nil || !strings.Contains(err.Error(), "no Client") {
		t.Errorf("a server with half a TLS: %v", err)
	}
	if _, err := store.Dial(within(t), first.Addr(), store.ClientConfig{TLS: half}); err == nil || !strings.Contains(err.Error(), "no Client") {
		t.Errorf("a client with half a TLS: %v", err)
	}
	for open, conf := range map[bool]*store.TLS{true: both, false: {Server: both.Server, Client: both.Client, Files: store.TLSFiles{Anonymous: true}}} {
		servesBeyond(t, conf, open)
	}
	// Without Files, which are for child processes, the configuration says it.
	servesBeyond(t, &store.TLS{Server: both.Server, Client: both.Client}, true)
	servesBeyond(t, &store.TLS{Server: &tls.Config{MinVersion: tls.VersionTLS13}, Client: both.Client}, false)
	servesBeyond(t, &store.TLS{Server: &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.VerifyClientCertIfGiven}, Client: both.Client}, false)
}

// servesBeyond checks whether a store of conf, without a token, is served to other hosts.
func servesBeyond(t *testing.T, conf *store.TLS, want bool) {
	t.Helper()
	s, err := store.NewServer(store.ServerConfig{Listen: "0.0.0.0:0", TLS: conf})
	if (err == nil) != want {
		t.Errorf("beyond this host, clients show certificates %t: %v", want, err)
	}
	if err == nil {
		s.Close()
	}
}

// freeAddress is one at which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// hello is the first record that a client of conf sends.
func hello(t testing.TB, conf *store.TLS, addr string) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() {
		_ = tls.Client(ours, conf.Client(addr)).HandshakeContext(t.Context()) // cut below
		ours.Close()
	}()
	theirs.SetDeadline(time.Now().Add(limit))
	head := make([]byte, 5)
	if _, err := io.ReadFull(theirs, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(theirs, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// TestTLSStrangers: clients that stop before or within the handshake, or never come to
// its end, keep no member out, and not one of their places is held for long.
func TestTLSStrangers(t *testing.T) {
	t.Parallel()
	both := replicaOf(t, guardtest.New(t), job)
	log := &lockedBuffer{}
	s := serve(t, store.ServerConfig{Token: []byte("token"), TLS: both, MaxConns: 64, Log: log.logger()})
	whole := hello(t, both, s.Addr())
	beginnings := [][]byte{
		nil, {0x16}, {0x16, 3, 1, 0x40, 0}, whole[:len(whole)/2], whole, append(bytes.Clone(whole), 0x17, 3, 3, 0x40, 0), []byte("GET / HTTP/1.1\r\n\r\n"),
	}
	turned := 0
	for i := range 400 {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 3)}}).DialContext(t.Context(), "tcp", s.Addr())
		if err != nil { // turned away so soon
			turned++
			continue
		}
		defer c.Close()
		_, _ = c.Write(beginnings[i%len(beginnings)]) // it may be cut already
		if i < 40 {
			continue
		}
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.Copy(io.Discard, c); err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			turned++
		}
	}
	if turned < 320 {
		t.Errorf("%d of the last 360 strangers were turned away, want nearly all", turned)
	}
	member, err := store.Dial(within(t), s.Addr(), store.ClientConfig{Token: []byte("token"), TLS: both})
	if err != nil {
		t.Fatalf("a member beside the strangers: %v", err)
	}
	defer member.Close()
	if err := member.Set(within(t), "k", nil); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "\n"); n > 100 {
		t.Errorf("%d lines logged, want at most 100", n)
	}
}

// TestTLSHandshakeIsBounded: a client that keeps on sending what could be part of a
// handshake is cut after some KiB.
func TestTLSHandshakeIsBounded(t *testing.T) {
	t.Parallel()
	both := replicaOf(t, guardtest.New(t), job)
	log := &lockedBuffer{}
	s := serve(t, store.ServerConfig{TLS: both, Log: log.logger()})
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(limit))
	// A hello of 60 KiB, in records of 1 KiB.
	record := append([]byte{0x16, 3, 1, 4, 0}, make([]byte, 1024)...)
	copy(record[5:], []byte{1, 0, 0xf0, 0})
	for range 64 {
		if _, err = c.Write(record); err != nil {
			break
		}
		copy(record[5:], make([]byte, 4))
	}
	_, err = io.Copy(io.Discard, c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it was not cut")
	}
	log.await(t, "more than 16384 bytes before the TLS handshake was over")
}

// TestTLSStrangersWriteShortLines: what a stranger wrote into a certificate is not
// repeated at length in the log.
func TestTLSStrangersWriteShortLines(t *testing.T) {
	t.Parallel()
	log := &lockedBuffer{}
	s := serve(t, store.ServerConfig{TLS: replicaOf(t, guardtest.New(t), job), Log: log.logger()})
	guardtest.ShowOdd(t, s.Addr(), 14_000)
	log.await(t, "store client dropped")
	for line := range strings.Lines(log.String()) {
		if most := 2*burst.MaxErrorBytes + 256; len(line) > most { // escapes; the other fields
			t.Errorf("a stranger caused a line of %d bytes, want %d at most: %.80s", len(line), most, line)
		}
	}
}

// sniffer passes bytes on, and keeps them.
type sniffer struct {
	addr string
	mu   sync.Mutex
	all  bytes.Buffer
}

// Write implements io.Writer.
func (p *sniffer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.Write(b)
}

func (p *sniffer) seen() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.all.Bytes())
}

// sniff listens before addr until the test ends.
func sniff(t *testing.T, addr string) *sniffer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &sniffer{addr: ln.Addr().String()}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	pass := func(from, to net.Conn) {
		_, _ = io.Copy(io.MultiWriter(to, p), from) // the end of one ends both
		from.Close()
		to.Close()
	}
	wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", addr)
			if err != nil {
				in.Close()
				continue
			}
			wg.Go(func() { pass(in, out) })
			wg.Go(func() { pass(out, in) })
		}
	})
	return p
}

// lockedBuffer is a log.
type lockedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

// Write implements io.Writer.
func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func (l *lockedBuffer) logger() zerolog.Logger { return zerolog.New(l) }

// await waits until text is in the log.
func (l *lockedBuffer) await(t *testing.T, text string) {
	t.Helper()
	until(t, func() error {
		if strings.Contains(l.String(), text) {
			return nil
		}
		return fmt.Errorf("the log has no %q:\n%s", text, l)
	})
}

// until waits until nothing is wrong any more.
func until(t *testing.T, wrong func() error) {
	t.Helper()
	deadline := time.After(limit)
	for err := wrong(); err != nil; err = wrong() {
		select {
		case <-deadline:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
