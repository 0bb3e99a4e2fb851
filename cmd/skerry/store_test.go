package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/certs"
)

// The command serves a store to whoever has no Go, until it is ended.
func TestStoreCommandServes(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	run, stop := context.WithCancel(ctx)
	addr, ended := startServing(run, t, nil, "store", "--listen", "127.0.0.1:0")
	c, err := store.Dial(ctx, addr, store.ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Set(ctx, "k", []byte("v")); err != nil {
		t.Error(err)
	}
	if got, err := c.Get(ctx, "k"); err != nil || string(got) != "v" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// With certificates the command takes replicas of the job, and no plain client; told
// not to encrypt, it takes PyTorch's as ever.
func TestStoreCommandSpeaksTLS(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	o := c.PartyOptions(t, guard.Party{Role: guard.Replica, Job: "vision"}, "replica")
	flags := []string{"store", "--listen", "127.0.0.1:0", "--tls-ca", o.TLSCA, "--tls-cert", o.TLSCert, "--tls-key", o.TLSKey, "--job", "vision"}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, encrypted := range []bool{true, false} {
		run, stop := context.WithCancel(ctx)
		args := flags
		if !encrypted {
			args = append(args, "--tls-data=false")
		}
		addr, ended := startServing(run, t, nil, args...)
		conf, err := certs.FromOptions(o, "vision")
		if err != nil {
			t.Fatal(err)
		}
		for _, client := range []*store.TLS{conf, nil} {
			s, err := store.Dial(ctx, addr, store.ClientConfig{TLS: client})
			if err == nil {
				s.Close()
			}
			if fits := (client != nil) == encrypted; fits != (err == nil) || !fits && !errors.Is(err, store.ErrTLS) {
				t.Errorf("server with TLS %t, client %t: %v", encrypted, client != nil, err)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	}
	operator := c.Options(t, guard.Operator, "operator")
	root := newRoot()
	root.SetArgs([]string{"store", "--listen", "127.0.0.1:0", "--tls-ca", operator.TLSCA, "--tls-cert", operator.TLSCert, "--tls-key", operator.TLSKey})
	if err := root.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), "has role operator, want replica") {
		t.Errorf("with an operator's certificate: %v", err)
	}
}
