package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skerry-ft/skerry/store"
)

func TestParseAddress(t *testing.T) {
	for s, want := range map[string]store.Address{
		"host:1":                  {Host: "host", Port: 1},
		"10.0.0.1:29500/":         {Host: "10.0.0.1", Port: 29500},
		"host:65535/a/b":          {Host: "host", Port: 65535, Prefix: "a/b"},
		"[::1]:1234/a/b/":         {Host: "::1", Port: 1234, Prefix: "a/b"},
		"[fe80::1%eth0]:1234//a":  {Host: "fe80::1%eth0", Port: 1234, Prefix: "a"},
		"h:1/skerry/c1/job/7/0":   {Host: "h", Port: 1, Prefix: "skerry/c1/job/7/0"},
		"h:1/with:colon/[and::1]": {Host: "h", Port: 1, Prefix: "with:colon/[and::1]"},
	} {
		got, err := store.ParseAddress(s)
		if err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", s, diff)
		}
		again, err := store.ParseAddress(got.String())
		if err != nil || again != got {
			t.Errorf("%q: String is %q, which reads as %+v, %v", s, got, again, err)
		}
	}
}

func TestParseAddressRefuses(t *testing.T) {
	for s, why := range map[string]string{
		"":              "no port",
		"host":          "no port",
		"host/prefix":   "no port",
		"host:":         "not a number",
		"host:port":     "not a number",
		"host:0":        "not a number",
		"host:65536":    "not a number",
		"host:-1":       "not a number",
		":1234/a":       "no host",
		"::1:1234":      "brackets",
		"[::1]/a":       "malformed",
		"[::1:1234":     "malformed",
		"tcp://h:1/a":   "scheme",
		"[::1]1234/a/b": "malformed",
	} {
		_, err := store.ParseAddress(s)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: got %v, want one that says %q", s, err, why)
		}
		if _, err2 := store.Open(t.Context(), s, store.ClientConfig{}); err2 == nil || err2.Error() != err.Error() {
			t.Errorf("open %q: got %v, want %v", s, err2, err)
		}
	}
}

func TestConfigsAreValidated(t *testing.T) {
	_, err := store.NewServer(store.ServerConfig{MaxConns: -1, MaxBytes: -2, AuthWait: -3})
	for _, field := range []string{"MaxConns = -1", "MaxBytes = -2", "AuthWait = -3ns"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("server: got %v, want it to name %q", err, field)
		}
	}
	_, err = store.Dial(t.Context(), "h:1", store.ClientConfig{
		Timeout: -1, WorldSize: -2, MaxConns: 1, WaitForWorkers: true, Token: make([]byte, store.MaxTokenBytes+1),
	})
	for _, field := range []string{"Timeout", "WorldSize", "MaxConns", "Token"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("client: got %v, want it to name %q", err, field)
		}
	}
	s, err := store.NewServer(store.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Allow("p", nil); err == nil {
		t.Error("an empty token was allowed")
	}
	if err := s.Allow(strings.Repeat("p", store.MaxKeyBytes+1), []byte("t")); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("a long prefix: got %v, want %v", err, store.ErrTooLarge)
	}
}
