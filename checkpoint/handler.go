package checkpoint

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// The request headers of a fetch.
const (
	headerWait  = "Skerry-Wait-Ms" // how long the donor may hold a request that came early
	headerProof = "Skerry-Proof"   // knowledge of the quorum's token
)

const (
	// maxHold bounds how long a donor holds an early request, whatever it
	// asks for. A target asks again: so each learns that the other is alive.
	maxHold = 10 * time.Second
	// otherHold bounds it when another version is staged: the donor may be
	// about to replace it, or may have gone on for good.
	otherHold = time.Second
	// writeStep is how much is written to a reader between two looks at
	// whether it still takes anything.
	writeStep = 1 << 20
)

// proof shows that the sender knows token, without sending it.
func proof(token []byte, v Version) string {
	mac := hmac.New(sha256.New, token)
	mac.Write([]byte("skerry heal\n" + string(v)))
	return hex.EncodeToString(mac.Sum(nil))
}

// refusal is an answer other than 200.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

func (t *HTTP) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/manifest", t.answer(func(s *snapshot, _ *http.Request) ([][]byte, error) {
		return [][]byte{s.manifest}, nil
	}))
	mux.HandleFunc("GET /v1/state", t.answer(func(s *snapshot, _ *http.Request) ([][]byte, error) {
		return [][]byte{s.head, s.data}, nil
	}))
	mux.HandleFunc("GET /v1/data", t.answer(part))
	return mux
}

// part reads which bytes of the data section are asked for.
func part(s *snapshot, r *http.Request) ([][]byte, error) {
	from, err := strconv.ParseUint(r.FormValue("from"), 10, 63)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "from = %q, want an offset", clip(r.FormValue("from")))
	}
	n, err := strconv.ParseUint(r.FormValue("n"), 10, 63)
	if err != nil || n == 0 || n > MaxChunkBytes {
		return nil, refuse(http.StatusBadRequest, "n = %q, want 1 to %d", clip(r.FormValue("n")), MaxChunkBytes)
	}
	if size := uint64(len(s.data)); from > size || n > size-from {
		return nil, refuse(http.StatusRequestedRangeNotSatisfiable, "bytes [%d,%d) of %d", from, from+n, size)
	}
	return [][]byte{s.data[from : from+n]}, nil
}

// answer wraps what a path serves: bounds, the wait for the version, the
// proof, and the writing.
func (t *HTTP) answer(choose func(*snapshot, *http.Request) ([][]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !t.gate.enter() {
			http.Error(w, "busy or closing", http.StatusServiceUnavailable)
			return
		}
		defer t.gate.leave()
		snap, err := t.acquire(r)
		if err == nil {
			defer t.stage.release(snap)
			var bodies [][]byte
			if bodies, err = choose(snap, r); err == nil {
				t.send(w, snap, bodies)
				return
			}
		}
		status := http.StatusServiceUnavailable
		if ref, ok := errors.AsType[*refusal](err); ok {
			status = ref.status
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(t.cfg.Timeout)) // unsupported only by fakes
		http.Error(w, err.Error(), status)
	}
}

// acquire waits for the version that r asks for, as long as r may be held, and
// checks the proof. The caller releases the snapshot.
func (t *HTTP) acquire(r *http.Request) (*snapshot, error) {
	v := Version(r.FormValue("version"))
	if err := v.check(); err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), holdOf(r))
	defer cancel()
	snap, err := t.stage.await(ctx, v)
	if err != nil {
		return nil, err
	}
	if len(snap.token) > 0 && !hmac.Equal([]byte(proof(snap.token, v)), []byte(r.Header.Get(headerProof))) {
		t.stage.release(snap)
		return nil, refuse(http.StatusForbidden, "the token's proof is missing or wrong")
	}
	return snap, nil
}

// holdOf is how long r may be held.
func holdOf(r *http.Request) time.Duration {
	ms, err := strconv.ParseUint(r.Header.Get(headerWait), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(ms)*time.Millisecond, maxHold)
}

// await returns v's snapshot, held, or says what is there instead when ctx
// ends, or otherHold after another version was seen.
func (s *stage) await(ctx context.Context, v Version) (*snapshot, error) {
	var other <-chan time.Time
	for {
		snap, has, changed, err := s.look(v)
		if snap != nil || err != nil {
			return snap, err
		}
		if has == "" {
			other = nil
		} else if other == nil {
			other = time.After(otherHold)
		}
		select {
		case <-changed:
			continue
		case <-other:
		case <-ctx.Done():
		}
		if has != "" {
			return nil, refuse(http.StatusConflict, "this donor serves %q, not %q", string(has), string(v))
		}
		return nil, refuse(http.StatusTooEarly, "%q is not staged yet", string(v))
	}
}

// send writes the bodies. A reader that takes nothing for Timeout is cut off,
// and so is everybody once the snapshot is.
func (t *HTTP) send(w http.ResponseWriter, snap *snapshot, bodies [][]byte) {
	var n int
	for _, b := range bodies {
		n += len(b)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(n))
	control := http.NewResponseController(w)
	for _, b := range bodies {
		for len(b) > 0 {
			select {
			case <-snap.cut:
				panic(http.ErrAbortHandler) // the one way to break a response off that net/http has
			default:
			}
			step := b[:min(len(b), writeStep)]
			_ = control.SetWriteDeadline(time.Now().Add(t.cfg.Timeout)) // unsupported only by fakes
			if _, err := w.Write(step); err != nil {
				t.cfg.Log.Debug().Err(err).Msg("reader lost")
				return
			}
			b = b[len(step):]
		}
	}
}

// readText reads a refusal's text, bounded.
func readText(r io.Reader) string {
	const most = 1 << 10
	text, err := io.ReadAll(io.LimitReader(r, most))
	if err != nil && len(text) == 0 {
		return err.Error()
	}
	return clip(string(text))
}
