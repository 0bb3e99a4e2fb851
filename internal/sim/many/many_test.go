package many

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// ofMany are the options of a job in which all that can happen does.
func ofMany(n int) Options {
	return Options{
		Replicas: n, Duration: 10 * time.Second, Step: 250 * time.Millisecond, Seed: 1,
		KillEvery: 2 * time.Second, Restart: time.Second, Leaders: 1,
	}
}

// A job trains through deaths, newcomers and a change of leader: it commits steps, is back in less than a
// second after each death, and all that it costs is counted.
func TestRun(t *testing.T) {
	r, err := Run(t.Context(), ofMany(64), DefaultCosts())
	r.Write(t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if r.steps < 20 || len(r.kills) < 3 || r.heals < 64+2 || r.leaders != 1 {
		t.Errorf("%d steps, %d kills, %d heals, %d changes of leader; want 20, 3, 66 and 1 at least", r.steps, len(r.kills), r.heals, r.leaders)
	}
	for _, k := range r.kills {
		if took := time.Duration(k.committed - k.at); k.committed == 0 || took > time.Second {
			t.Errorf("%s was killed at %v, and a step was committed after %v, want a second at most", k.id, time.Duration(k.at), took)
		}
	}
	first := r.changes[0]
	if first.members != 64 || first.made != 64*63 || first.gets != 64*32 || first.up != 2*64 || first.down != 64 {
		t.Errorf("the first quorum is %+v, want 64 members, 64 x 63 ends of edges, 64 x 32 look-ups, 128 messages in and 64 out", first)
	}
}

// A job whose members come to be more than are told lists, and no more, again and again.
func TestCrossesTheBoundOfLists(t *testing.T) {
	o := ofMany(quorum.MaxListed + 1)
	o.Duration = 4 * time.Second
	r, err := Run(t.Context(), o, DefaultCosts())
	r.Write(t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if r.steps < 3 || len(r.kills) < 1 || r.leaders != 1 {
		t.Errorf("%d steps, %d kills, %d changes of leader; want 3, 1 and 1 at least", r.steps, len(r.kills), r.leaders)
	}
}

// The same options give the same run; another seed gives another one.
func TestSameSeedSameRun(t *testing.T) {
	text := func(seed uint64) string {
		o := ofMany(16)
		o.Seed = seed
		r, err := Run(t.Context(), o, DefaultCosts())
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		r.Write(&b)
		_, after, _ := strings.Cut(b.String(), "seed ")
		_, after, _ = strings.Cut(after, ",")
		return after
	}
	if a, b := text(1), text(1); a != b {
		t.Errorf("two runs of seed 1:\n%s\n%s", a, b)
	}
	if text(1) == text(2) {
		t.Error("seeds 1 and 2 give one run")
	}
}

// A slower lighthouse makes the same job slower: what a run takes is by its costs.
func TestCostsCount(t *testing.T) {
	took := func(set ...string) time.Duration {
		c := DefaultCosts()
		for _, text := range set {
			if err := c.Set(text); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Run(t.Context(), ofMany(16), c)
		if err != nil {
			t.Fatal(err)
		}
		return r.changes[0].took
	}
	if fast, slow := took(), took("message=20ms"); slow < fast+150*time.Millisecond {
		t.Errorf("the first quorum took %v, and %v with 20 ms for each message, want 150 ms more", fast, slow)
	}
	if few, many := took(), took("get=10ms"); many < few+600*time.Millisecond {
		t.Errorf("the first quorum took %v, and %v with 10 ms for each look-up, want 600 ms more", few, many)
	}
}

// A run ends when its caller's ctx does.
func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if r, err := Run(ctx, ofMany(64), DefaultCosts()); !errors.Is(err, why) || r.steps > 0 {
		t.Errorf("%d steps, error %v; want none, and %v", r.steps, err, why)
	}
}

// What cannot be simulated is refused by its name, its value and its bound.
func TestRefused(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"--replicas = 0, want 1 to 10000":     func(o *Options) { o.Replicas = 0 },
		"--replicas = 10001, want 1 to 10000": func(o *Options) { o.Replicas = 10_001 },
		"--duration = 1ms, want 1s to 1h0m0s": func(o *Options) { o.Duration = time.Millisecond },
		"--step = 0s, want 1ms to 1m0s":       func(o *Options) { o.Step = 0 },
		"--kill-every = -1s, want 0 or more":  func(o *Options) { o.KillEvery = -time.Second },
		"--leaders = 1001, want 0 to 1000":    func(o *Options) { o.Leaders = 1001 },
	} {
		o := ofMany(3)
		change(&o)
		if _, err := Run(t.Context(), o, DefaultCosts()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	c := DefaultCosts()
	for _, text := range []string{"", "get", "get=", "get=0s", "get=2m", "gets=1s"} {
		if err := c.Set(text); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("Set(%q) = %v, want what is wanted", text, err)
		}
	}
}
