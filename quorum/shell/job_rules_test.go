package shell

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

func serverRules() ServerRules {
	return ServerRules{
		Rules: quorum.DefaultConfig(), TorchftHeartbeatTimeout: 5 * time.Second, BeatInterval: 100 * time.Millisecond,
	}
}

// The rules of a job without its own follow the kind of the client that joined, be it
// that another kind had named the job; an operator's rules stay.
func TestJobRulesFollowTheKind(t *testing.T) {
	t.Parallel()
	own := quorum.DefaultConfig()
	own.HeartbeatTimeout, own.MinReplicas = 3*time.Second, 2
	for _, tc := range []struct {
		name           string
		own            *quorum.Config
		named, joined  quorum.ClientKind
		fixed, changed bool
		heartbeat      time.Duration
	}{
		{"as it was named", nil, quorum.KindSkerry, quorum.KindSkerry, false, false, time.Second},
		{"named by a session, torchft joins", nil, quorum.KindSkerry, quorum.KindTorchft, true, true, 5 * time.Second},
		{"named by a beat of torchft's, ours join", nil, quorum.KindTorchft, quorum.KindSkerry, true, true, time.Second},
		{"rebuilt from a ledger without a kind", nil, quorum.KindUnset, quorum.KindTorchft, true, true, 5 * time.Second},
		{"an operator's rules", &own, quorum.KindSkerry, quorum.KindTorchft, true, false, 3 * time.Second},
	} {
		r := NewJobRules(serverRules(), tc.named, tc.own)
		fixed, changed := r.JoinedAs(tc.joined)
		if fixed != tc.fixed || changed != tc.changed {
			t.Errorf("%s: fixed %v, changed %v, want %v, %v", tc.name, fixed, changed, tc.fixed, tc.changed)
		}
		if got := r.InForce().HeartbeatTimeout; got != tc.heartbeat || r.Kind() != tc.joined || r.Own() != (tc.own != nil) {
			t.Errorf("%s: heartbeat timeout %v of kind %v, own %v, want %v", tc.name, got, r.Kind(), r.Own(), tc.heartbeat)
		}
		if fixed, changed := r.JoinedAs(tc.joined); fixed || changed {
			t.Errorf("%s: the second join is news: %v, %v", tc.name, fixed, changed)
		}
	}
}

// What follows from the heartbeat timeout follows it, unless it is named; what is wrong
// is refused with its value and its bound.
func TestJobRulesAreSet(t *testing.T) {
	t.Parallel()
	before := NewJobRules(serverRules(), quorum.KindSkerry, nil)
	c := before.Config()
	c.HeartbeatTimeout = 600 * time.Millisecond
	r, err := before.Set(c, false, false)
	if err != nil || r.Config().SuspectAfter != 300*time.Millisecond || !r.Own() || before.Own() {
		t.Errorf("suspect after %v, own %v, before %v, error %v; want 300ms of its own", r.Config().SuspectAfter, r.Own(), before.Own(), err)
	}
	if r, err = before.Set(c, true, true); err != nil || r.Config().SuspectAfter != 500*time.Millisecond {
		t.Errorf("named: suspect after %v, error %v, want 500ms", r.Config().SuspectAfter, err)
	}
	if back := r.Reset(); back.Own() || back.Config() != before.Config() {
		t.Errorf("reset to %+v, own %v", back.Config(), back.Own())
	}
	c.SuspectAfter = 4 * time.Millisecond
	for want, c := range map[string]quorum.Config{
		"SuspectAfter = 4ms, want at least 5ms: 5 beats": c,
		"MinReplicas = 0, want 1 to 16384":               func() quorum.Config { c := before.Config(); c.MinReplicas = 0; return c }(),
	} {
		if _, err := before.Set(c, true, true); !errors.Is(err, quorum.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// The beats of all sessions stretch the beat interval and what waits for beats, and
// nothing of what an operator sees.
func TestJobRulesAreStretched(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_764_000_000, 0)
	r := NewJobRules(serverRules(), quorum.KindSkerry, nil)
	if r.Retime(now, 2000, r.InForce()) || r.BeatInterval() != 100*time.Millisecond || r.ServerBeat() != 200*time.Millisecond {
		t.Errorf("2000 sessions: a beat each %v, of the server each %v, want 100ms and 200ms", r.BeatInterval(), r.ServerBeat())
	}
	if !r.Retime(now, 4000, r.InForce()) || r.BeatInterval() != 200*time.Millisecond || r.ServerBeat() != 400*time.Millisecond {
		t.Errorf("4000 sessions: a beat each %v, of the server each %v, want 200ms and 400ms", r.BeatInterval(), r.ServerBeat())
	}
	if got := r.InForce().HeartbeatTimeout; got != 2*time.Second || r.Config() != quorum.DefaultConfig() {
		t.Errorf("4000 sessions: heartbeat timeout %v, want 2s, and the rules as they were: %+v", got, r.Config())
	}
	c := quorum.DefaultConfig()
	c.SuspectAfter = 50 * time.Millisecond
	r, err := NewJobRules(serverRules(), quorum.KindSkerry, nil).Set(c, true, true)
	if err != nil || r.BeatInterval() != 10*time.Millisecond {
		t.Errorf("suspect after 50ms: a beat each %v, error %v, want a fifth of that", r.BeatInterval(), err)
	}
}
