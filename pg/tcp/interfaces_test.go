package tcp

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/pg"
)

// TestInterfaces: an edge runs between addresses of the named interface.
func TestInterfaces(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"", ":0", "127.0.0.1", "127.0.0.1:0"} {
		opt := striped(2)
		opt.Interfaces, opt.Listen = []string{"=lo"}, listen
		w := newWorld(t, 2, opt)
		w.configure(1)
		w.reduceOK(w.everybody(), 300_000)
		for _, k := range w.backends[0].linkTo("replica1").socks {
			if !strings.HasPrefix(k.path(), "127.0.0.1:") || !strings.Contains(k.path(), " to 127.0.0.1:") {
				t.Errorf("Listen %q: stream %d runs from %s", listen, k.index, k.path())
			}
		}
	}
}

// TestNoInterface: one that is missing is named, beside those that there are.
func TestNoInterface(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		interfaces []string
		listen     string
		want       []string
	}{
		{[]string{"=lo", "none7"}, "", []string{"is none7", "there are lo"}},
		{[]string{"=l"}, "", []string{"is =l", "there are lo"}},
		{[]string{"lo"}, "192.0.2.1", []string{`Listen = "192.0.2.1"`, "127.0.0.1"}},
	} {
		w := newWorld(t, 1, Options{Interfaces: c.interfaces, Listen: c.listen})
		err := w.backends[0].Configure(t.Context(), w.config(1, []int{0}, 0))
		if err == nil {
			t.Errorf("%q, Listen %q: no error", c.interfaces, c.listen)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q, Listen %q: %v, want %q in it", c.interfaces, c.listen, err, part)
			}
		}
	}
}

// TestAdvertised: peers are told one address for each listener, or those of
// Advertise, with the listener's port where that names none.
func TestAdvertised(t *testing.T) {
	t.Parallel()
	listeners, err := listenAll([]string{"127.0.0.1:0", "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(listeners)
	_, second, err := net.SplitHostPort(listeners[1].Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		advertise string
		want      []string
	}{
		{"", []string{listeners[0].Addr().String(), listeners[1].Addr().String()}},
		{"a:7,b", []string{"a:7", "b:" + second}},
		{"a:7", []string{"a:7"}},
		{"a,b,c", nil},
	} {
		b := New(Options{Advertise: c.advertise})
		b.mu.listeners = listeners
		if got, err := b.advertised(); !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%q: %q, %v, want %q", c.advertise, got, err, c.want)
		}
	}
	for published, want := range map[string]int{
		"1.2.3.4:5 abc boot/name":                               1,
		"1.2.3.4:5,6.7.8.9:10 abc ":                             2,
		strings.Repeat("1.2.3.4:5,", 3*MaxStreams) + "x:1 abc ": MaxStreams,
	} {
		if got, _ := parseAddresses([]byte(published)); len(got) != want {
			t.Errorf("%q: %q, want %d", published, got, want)
		}
	}
}

// TestOpenStreams: the number of streams comes from Params, else from the
// environment, and is bounded.
func TestOpenStreams(t *testing.T) {
	for _, c := range []struct {
		env, param string
		want       int
		bad        string
	}{
		{"", "", 0, ""},
		{"3", "", 3, ""},
		{"3", "2", 2, ""},
		{"17", "", 0, `SKERRY_TCP_STREAMS = "17", want 1 to 16`},
		{"", "0", 0, `Params["streams"] = "0", want 1 to 16`},
		{"", "many", 0, `"many"`},
	} {
		t.Setenv(EnvStreams, c.env)
		o := pg.Options{Interfaces: []string{"lo"}}
		if c.param != "" {
			o.Params = map[string]string{ParamStreams: c.param}
		}
		b, err := Open(o)
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if opt := b.(*Backend).opt; opt.Streams != c.want || !slices.Equal(opt.Interfaces, o.Interfaces) {
			t.Errorf("%+v: %d streams over %q", c, opt.Streams, opt.Interfaces)
		}
	}
	if err := (Options{Streams: MaxStreams + 1}).Validate(); err == nil {
		t.Error("too many streams are valid")
	}
	// Between hosts each interface gets as many.
	for addresses, want := range map[int]int{1: 4, 2: 4, 3: 6, 5: 5, 16: 16} {
		if got := streamsBetween(addresses); got != want {
			t.Errorf("%d addresses: %d streams, want %d", addresses, got, want)
		}
	}
}

// TestOpenBeatTimeout: it is each member's own, and has units.
func TestOpenBeatTimeout(t *testing.T) {
	t.Parallel()
	open := func(value string) (pg.Backend, error) {
		return Open(pg.Options{Params: map[string]string{ParamBeatTimeout: value}})
	}
	b, err := open("2s")
	if err != nil {
		t.Fatal(err)
	}
	if got := b.(*Backend).opt.BeatTimeout; got != 2*time.Second {
		t.Errorf("limit %v, want 2s", got)
	}
	for value, want := range map[string]string{
		"2": `duration "2"`, "": `duration ""`, "-1s": "BeatTimeout = -1s, want at least twice",
		"100ms": "BeatTimeout = 100ms, want at least twice BeatInterval",
	} {
		if _, err := open(value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", value, err, want)
		}
	}
}
