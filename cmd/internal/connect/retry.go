package connect

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/backoff"
)

const (
	// again is the first pause before a stream that broke is asked for anew, and mostAgain
	// the longest, but for what a server asks for.
	again     = 500 * time.Millisecond
	mostAgain = 5 * time.Second
	// mostAsked bounds what a server may ask for by Retry-After.
	mostAsked = 5 * time.Minute
)

// retry has the pauses of a stream that is to go on. It is owned by one goroutine.
type retry struct {
	pauses backoff.Backoff
	asked  time.Duration // by a server, before the next try
}

func newRetry() retry {
	return retry{pauses: backoff.Backoff{First: again, Most: mostAgain, Spread: true}}
}

// later is err, marked as that of a server that cannot answer now if it says so by its HTTP
// status, whether it is the lighthouse or a proxy before it.
func (r *retry) later(err error) error {
	e, ok := errors.AsType[*answerError](err)
	if !ok {
		return err
	}
	switch e.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		r.asked = max(r.asked, e.retryAfter)
		return cli.WithStatus(cli.StatusNoLeader, err)
	}
	return err
}

// next is the pause before the next try: as long as a server asked for, and no shorter than
// what tries in vain come to.
func (r *retry) next() time.Duration {
	pause := max(r.pauses.Next(), r.asked)
	r.asked = 0
	return pause
}

// retryAfter reads the header of that name: seconds, or a date. Without one, or with one that
// has passed, it is 0.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if s, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(s)*time.Second, mostAsked)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), mostAsked)
}
