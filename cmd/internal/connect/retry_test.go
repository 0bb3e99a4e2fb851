package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/lighthouse/api"
)

// refusing is a server that answers the first request with a status, and later ones with a
// stream of one event.
func refusing(t *testing.T, status int) *Flags {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			http.Error(w, "not now", status)
			return
		}
		_ = json.NewEncoder(w).Encode(api.Event{Job: "digits", Seq: 1, AtMs: 1_000}) // a test that fails sees it
	}))
	t.Cleanup(s.Close)
	return &Flags{list: s.URL, timeout: answerTimeout}
}

// A stream goes on after an answer that means "not now", from whatever stands before the
// lighthouse, and ends with one that will stay so.
func TestFollowGoesOn(t *testing.T) {
	t.Parallel()
	for status, goesOn := range map[int]bool{
		http.StatusTooManyRequests: true, http.StatusBadGateway: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
		http.StatusUnauthorized: false, http.StatusForbidden: false, http.StatusInternalServerError: false,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var troubles []string
			told := 0
			err := refusing(t, status).Follow(ctx, "digits", nil, func(api.Event) error {
				told++
				cancel()
				return nil
			}, func(s string) { troubles = append(troubles, s) })
			if !goesOn {
				if told != 0 || err == nil || !strings.Contains(err.Error(), fmt.Sprint(status)) {
					t.Errorf("%d events, and ended with %v, want the answer", told, err)
				}
				return
			}
			if told != 1 || err != nil || len(troubles) != 2 || !strings.Contains(troubles[0], fmt.Sprint(status)) || troubles[1] != "" {
				t.Errorf("%d events, ended with %v; told %q, want the answer and that it is over", told, err, troubles)
			}
		})
	}
}

// A server's wish for a pause counts, once and within bounds; else pauses grow.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 7, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "0": 0, "-1": 0, "soon": 0, "99999": mostAsked, "99999999999999999999": 0,
		"Sat, 28 Nov 2026 07:00:09 GMT": 9 * time.Second, "Sat, 28 Nov 2026 06:00:00 GMT": 0, "Sun, 29 Nov 2026 07:00:00 GMT": mostAsked,
	} {
		if got := retryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("Retry-After: %q is %v, want %v", text, got, want)
		}
	}
	r := newRetry()
	busy := &answerError{status: http.StatusTooManyRequests, retryAfter: time.Minute}
	if err := r.later(busy); cli.StatusOf(err) != cli.StatusNoLeader || !errors.Is(err, busy) {
		t.Errorf("429 becomes %v with status %d", err, cli.StatusOf(err))
	}
	if err := r.later(&answerError{status: http.StatusForbidden, retryAfter: time.Hour}); cli.StatusOf(err) != cli.StatusFailed {
		t.Errorf("403 becomes status %d", cli.StatusOf(err))
	}
	if got := r.next(); got != time.Minute {
		t.Errorf("the pause is %v, want the minute that was asked for", got)
	}
	for range 10 {
		if got := r.next(); got < again/2 || got > mostAgain {
			t.Errorf("a pause of %v, want %v to %v", got, again/2, mostAgain)
		}
	}
	if got := r.next(); got < mostAgain/2 {
		t.Errorf("pauses do not grow: %v after ten", got)
	}
}
