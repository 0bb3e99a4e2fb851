package checkpoint_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/ckpttest"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/tensor"
)

// healBound is how long a heal that cannot be may be tried.
const healBound = 10 * time.Second

// wiretap stands between a target and a donor and keeps what passes.
type wiretap struct {
	sync.Mutex

	heard bytes.Buffer
}

// Write implements io.Writer.
func (w *wiretap) Write(p []byte) (int, error) {
	w.Lock()
	defer w.Unlock()
	return w.heard.Write(p)
}

// tapped listens, and passes what comes to address and back through the wiretap.
func (w *wiretap) tapped(t *testing.T, address string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", address)
			if err != nil {
				from.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
				wg.Go(func() {
					_, _ = io.Copy(pair[1], io.TeeReader(pair[0], w)) // ends with either side
					pair[0].Close()
					pair[1].Close()
				})
			}
		}
	})
	return ln.Addr().String()
}

// TestHealIsEncrypted: who reads the wire of a heal finds the model, where it is in
// the clear, and nothing of it where donor and target have certificates; and a target
// that has takes nothing from a donor that has none.
func TestHealIsEncrypted(t *testing.T) {
	t.Parallel()
	g := guardtest.Open(t, guardtest.New(t).Options(t, guard.Replica, "replica"))
	secured := &checkpoint.TLS{
		Server: g.ServerFor("job", guard.Replica),
		Client: func(host string) *tls.Config {
			return g.TLS.Client(host, guard.Party{Role: guard.Replica, Job: "job"})
		},
	}
	known := []byte("a weight of the model is known. ")
	state := func(fill []byte) checkpoint.State {
		w := tensor.New(tensor.Float32, 1<<18)
		copy(w.Bytes(), bytes.Repeat(fill, len(w.Bytes())/len(fill)))
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"w": w}, Meta: map[string]string{}}
	}
	const version = checkpoint.Version("v")
	fetch := func(donor, target *checkpoint.TLS) (seen []byte, err error) {
		var wire wiretap
		d := ckpttest.Running(t, checkpoint.HTTPConfig{TLS: donor, Token: []byte("secret")})
		want := state(known)
		if err := d.Serve(version, ckpttest.Saves(want)); err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(d.Metadata())
		if err != nil {
			t.Fatal(err)
		}
		u.Host = wire.tapped(t, u.Host)
		into := state([]byte{0})
		ctx, cancel := context.WithTimeout(t.Context(), healBound)
		defer cancel()
		_, err = ckpttest.Fetch(ctx, ckpttest.Running(t, checkpoint.HTTPConfig{TLS: target, Token: []byte("secret")}), version, []string{u.String()}, into)
		if err == nil {
			ckpttest.Equal(t, into, want)
		}
		wire.Lock()
		defer wire.Unlock()
		return bytes.Clone(wire.heard.Bytes()), err
	}
	for name, c := range map[string]*checkpoint.TLS{"plain": nil, "TLS": secured} {
		seen, err := fetch(c, c)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(seen) < 1<<20 {
			t.Errorf("%s: only %d bytes passed", name, len(seen))
		}
		if found := bytes.Contains(seen, known); found != (c == nil) {
			t.Errorf("%s: the model is found on the wire: %v", name, found)
		}
	}
	if seen, err := fetch(nil, secured); err == nil || bytes.Contains(seen, known) {
		t.Errorf("a target with certificates and a donor without: %v", err)
	}
	if seen, err := fetch(secured, nil); err == nil || bytes.Contains(seen, known) {
		t.Errorf("a target without certificates and a donor with: %v", err)
	}
}
