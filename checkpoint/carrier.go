package checkpoint

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/internal/proof"
)

// Carrier moves the bytes of chunks in place of the bodies of HTTP responses: between each
// donor and target over a way of their own, as package pgcarrier does over a process
// group of two. What is asked for, the proofs, marks and turns are HTTP's all the same.
// Where donor and target have none in common, or theirs breaks, the bytes come by HTTP.
// Safe for concurrent use.
type Carrier interface {
	// Offer makes a donor's end, and says, in 4 KiB at most, what the target needs
	// to make its own. Both know secret, and nobody else does, if there is a token.
	Offer(secret []byte) (end CarrierEnd, offer string, err error)
	// Answer makes a target's end. An offer may be anything.
	Answer(offer string, secret []byte) (CarrierEnd, error)
}

// CarrierEnd is one end. All methods are safe for concurrent use, and end with their ctx;
// an error is for good. After each call nothing touches its bytes.
type CarrierEnd interface {
	// Connect blocks until both ends are connected.
	Connect(ctx context.Context) error
	// Send gives b to the Receive of the same tag and length at the other end.
	Send(ctx context.Context, tag int, b []byte) error
	Receive(ctx context.Context, tag int, into []byte) error
	// Close ends all calls, and frees what the end holds.
	Close() error
}

const (
	// maxOfferBytes bounds what a Carrier says in an offer.
	maxOfferBytes = 4 << 10
	// maxCarried bounds the targets that a donor has connections of a Carrier with.
	maxCarried = 16
	// secretOfCarrier is the purpose of the secret of two ends.
	secretOfCarrier = "skerry heal carrier"
	nonceBytes      = 16
)

// carried is a donor's end, and what its target names it by.
type carried struct {
	end   CarrierEnd
	ready chan struct{} // closed when its Connect has returned: the target's may have before
	tags  atomic.Int64
}

// offerLine is the answer to /v2/carrier, one line of JSON, at most maxOfferLine long.
type offerLine struct {
	ID    string `json:"id"`
	Offer string `json:"offer"`
}

const maxOfferLine = 8 * maxOfferBytes

// serveCarrier makes an end for a target, and keeps it for as long as that keeps the
// request.
func (t *HTTP) serveCarrier(w http.ResponseWriter, r request) error {
	if t.cfg.Carrier == nil {
		return refuse(http.StatusNotFound, "this donor has no carrier")
	}
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // it never fails
	end, offer, err := t.cfg.Carrier.Offer(proof.Of(tokenOf(r.Request, r.version, t.tokensFor(r.version)), secretOfCarrier, nonce))
	if err != nil {
		return refuse(http.StatusServiceUnavailable, "no carrier: %v", err)
	}
	defer func() { _ = end.Close() }() // it is given up
	id := hex.EncodeToString(nonce)
	c := &carried{end: end, ready: make(chan struct{})}
	if !t.carry(id, c) {
		return refuse(http.StatusServiceUnavailable, "%d targets have a carrier already", maxCarried)
	}
	defer t.carry(id, nil)
	line, err := json.Marshal(offerLine{ID: id, Offer: offer})
	if err != nil {
		return err
	}
	if !t.write(w, append(line, '\n')) || http.NewResponseController(w).Flush() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Request.Context(), t.cfg.Timeout)
	defer cancel()
	err = end.Connect(ctx)
	close(c.ready)
	if err != nil {
		t.cfg.Log.Debug().Err(err).Msg("carrier not connected")
		return nil
	}
	<-r.Request.Context().Done()
	return nil
}

// carry notes a donor's end, or forgets it (nil); false: there are too many.
func (t *HTTP) carry(id string, c *carried) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c == nil {
		delete(t.mu.carried, id)
		return true
	}
	if len(t.mu.carried) >= maxCarried {
		return false
	}
	t.mu.carried[id] = c
	return true
}

// sendCarried sends b by the carrier that the request names; the response says when it
// may be received, and ends when it has gone.
func (t *HTTP) sendCarried(w http.ResponseWriter, r request, id string, b []byte) error {
	t.mu.Lock()
	c := t.mu.carried[id]
	t.mu.Unlock()
	if c == nil {
		return refuse(http.StatusGone, "there is no such carrier")
	}
	tag := int(c.tags.Add(1))
	ctx, cancel := context.WithTimeout(r.Request.Context(), t.cfg.Timeout)
	defer cancel()
	w.Header().Set(headerTag, strconv.Itoa(tag))
	if !t.write(w, []byte{'+'}) || http.NewResponseController(w).Flush() != nil {
		return nil
	}
	if err := c.send(ctx, tag, b); err != nil {
		t.cfg.Log.Debug().Err(err).Msg("target lost by its carrier")
		_ = c.end.Close() // the target waits for b there
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (c *carried) send(ctx context.Context, tag int, b []byte) error {
	select {
	case <-c.ready:
		return c.end.Send(ctx, tag, b)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// connect makes a target's end of a carrier to d, and keeps it until ctx ends.
func (f *fetch) connect(ctx context.Context, d *donor) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return f.get(ctx, d, 0, "/v2/carrier", url.Values{}, func(_ *http.Response, body *watched) error {
		said, err := bufio.NewReaderSize(io.LimitReader(body, maxOfferLine), maxOfferLine).ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("read offer: %w", safetensors.Truncated(err))
		}
		var line offerLine
		if err := json.Unmarshal(said, &line); err != nil {
			return safetensors.Corrupt("offer %q: %v", safetensors.Clip(string(said)), err)
		}
		nonce, err := hex.DecodeString(line.ID)
		if err != nil || len(nonce) != nonceBytes || len(line.Offer) > maxOfferBytes {
			return safetensors.Corrupt("offer %q", safetensors.Clip(string(said)))
		}
		end, err := f.cfg.Carrier.Answer(line.Offer, proof.Of(f.token, secretOfCarrier, nonce))
		if err != nil {
			return err
		}
		defer func() { _ = end.Close() }() // it is given up
		body.timer.Stop()                  // nothing more comes
		limited, stop := context.WithTimeout(ctx, f.cfg.Timeout)
		defer stop()
		if err := end.Connect(limited); err != nil {
			return err
		}
		by := &carrying{end: end, id: line.ID, broken: cancel}
		d.carrying.Store(by)
		<-ctx.Done()
		d.carrying.CompareAndSwap(by, nil)
		return nil
	})
}

// carrying is a target's end, and what the donor knows it by.
type carrying struct {
	end    CarrierEnd
	id     string
	broken func() // gives it up
}

// failedBy gives by up, and says so, unless err is the donor's word that it cannot send
// now.
func (d *donor) failedBy(by *carrying, err error) bool {
	if ref, refused := errors.AsType[*refusal](err); refused && ref.status != http.StatusGone {
		return false
	}
	d.carrying.CompareAndSwap(by, nil)
	by.broken()
	return true
}

// receive takes what is missing of c by the carrier, once the donor says that it comes.
func (by *carrying) receive(ctx context.Context, c *chunk, resp *http.Response, body io.Reader, limit time.Duration) error {
	tag, err := strconv.Atoi(resp.Header.Get(headerTag))
	if err != nil || tag <= 0 {
		return safetensors.Corrupt("%s = %q, want a number", headerTag, safetensors.Clip(resp.Header.Get(headerTag)))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	parts := c.rest()
	into, beside := []byte(nil), len(parts) != 1
	if beside {
		into = make([]byte, c.to-c.from-c.got)
	} else {
		into = parts[0]
	}
	if err := by.end.Receive(ctx, tag, into); err != nil {
		return err
	}
	if beside {
		from := bytes.NewReader(into)
		for _, part := range parts {
			if err := c.fill(from, part); err != nil {
				return err
			}
		}
	} else {
		c.filled(into)
	}
	// All is there, whatever becomes of the response: its end is read so that the
	// connection serves the next request.
	_, _ = io.CopyN(io.Discard, body, maxRest)
	return nil
}

// maxRest bounds what is read of a response whose bytes have come by a carrier.
const maxRest = 16
