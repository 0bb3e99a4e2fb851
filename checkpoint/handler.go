package checkpoint

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/proof"
)

// The request headers of a fetch.
const (
	headerWait  = "Skerry-Wait-Ms" // how long the donor may hold a request that came early
	headerProof = "Skerry-Proof"   // knowledge of the quorum's token
)

// headerMark of a data response is the mark of its bytes, as the donor read
// them.
const headerMark = "Skerry-Mark"

// headerTag of a data response is the tag under which its bytes come by the carrier.
const headerTag = "Skerry-Tag"

const (
	// maxHold bounds how long a donor holds an early request, whatever it
	// asks for. A target asks again: so each learns that the other is alive.
	maxHold = 10 * time.Second
	// otherHold bounds it when another version is served: the donor may be about
	// to replace it, or may have gone on for good.
	otherHold = time.Second
	// writeStep is how much is written to a reader between two looks at
	// whether it still takes anything.
	writeStep = 1 << 20
	// maxMarks bounds the marks of one request.
	maxMarks = 64
	// markShare is how much cheaper a chunk's mark is than the chunk: it is not sent.
	markShare = 8
)

// proofOfFetch is what the sender of a request proves, over the version that it wants.
const proofOfFetch = "skerry heal"

// refusal is an answer other than 200.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// handler serves what has no body. Before a request has proved the token no more
// is looked at than its head, which the server has bounded, and nothing of the
// transport's is held.
func (t *HTTP) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/manifest", t.answer(t.serveManifest))
	mux.HandleFunc("GET /v2/marks", t.answer(t.serveMarks))
	mux.HandleFunc("GET /v2/data", t.answer(t.serveData))
	mux.HandleFunc("GET /v2/carrier", t.answer(t.serveCarrier))
	mux.HandleFunc("GET /v1/state", t.answer(t.serveState))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // until the proof
		if r.ContentLength != 0 {             // -1: of an unknown length
			t.refuseWith(w, refuse(http.StatusRequestEntityTooLarge, "a body of %d bytes, want none", r.ContentLength))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// request is one that may be answered: its bounds and its proof are right.
type request struct {
	*http.Request
	version Version
	query   url.Values
	// ctx ends when the request may be held no longer.
	ctx context.Context
}

// answer wraps what a path serves: bounds and the proof, then the gate. Serve
// returns an error only before it has written anything.
func (t *HTTP) answer(serve func(http.ResponseWriter, request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query() // not FormValue, which would read a body too, into files
		v := Version(query.Get("version"))
		if err := t.admit(r, v); err != nil {
			t.refuseWith(w, err)
			return
		}
		proved(r)
		w.Header().Del("Connection")
		// Nothing is to be read any more, and a request may be held for longer.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // unsupported only by fakes
		select {
		case t.requests <- struct{}{}:
			defer func() { <-t.requests }()
		default:
			t.refuseWith(w, refuse(http.StatusServiceUnavailable, "busy or closing"))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), holdOf(r))
		defer cancel()
		if err := serve(w, request{r, v, query, ctx}); err != nil {
			t.refuseWith(w, err)
		}
	}
}

// refuseWith tells the reader of err.
func (t *HTTP) refuseWith(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if ref, ok := errors.AsType[*refusal](err); ok {
		status = ref.status
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(t.cfg.Timeout)) // unsupported only by fakes
	http.Error(w, err.Error(), status)
}

// admit checks the version's form and the proof.
func (t *HTTP) admit(r *http.Request, v Version) error {
	if err := v.check(); err != nil && v != Any {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	tokens := t.tokensFor(v)
	switch {
	case len(tokens) == 0 && t.cfg.Guarded:
		return refuse(http.StatusForbidden, "this donor is in no quorum yet")
	case len(tokens) > 0 && tokenOf(r, v, tokens) == nil:
		return refuse(http.StatusForbidden, "the token's proof is missing or wrong")
	}
	return nil
}

// tokenOf is the one of tokens that r proves; nil: none.
func tokenOf(r *http.Request, v Version, tokens [][]byte) []byte {
	said, err := hex.DecodeString(r.Header.Get(headerProof))
	i := slices.IndexFunc(tokens, func(token []byte) bool { return err == nil && proof.Holds(said, token, proofOfFetch, []byte(v)) })
	if i < 0 {
		return nil
	}
	return tokens[i]
}

// serveManifest says what the state holds and how it is cut.
func (t *HTTP) serveManifest(w http.ResponseWriter, r request) error {
	o, err := t.window.hold(r.ctx, r.version)
	if err != nil {
		return err
	}
	m := &manifest{Layout: o.view.Layout, chunkBytes: int64(t.cfg.ChunkBytes)}
	n, head := m.chunks(), o.head
	t.window.release(o, r.version)
	if n > MaxChunks {
		return refuse(http.StatusInsufficientStorage, "state of %d chunks of %d bytes, want at most %d", n, m.chunkBytes, MaxChunks)
	}
	t.send(w, m.encode(head))
	return nil
}

// number reads a field of a request.
func (r request) number(name string, least, most uint64) (int64, error) {
	n, err := strconv.ParseUint(r.query.Get(name), 10, 63)
	if err != nil || n < least || n > most {
		return 0, refuse(http.StatusBadRequest, "%s = %q, want %d to %d", name, safetensors.Clip(r.query.Get(name)), least, most)
	}
	return int64(n), nil
}

// serveMarks tells some chunks' marks.
func (t *HTTP) serveMarks(w http.ResponseWriter, r request) error {
	first, err := r.number("first", 0, MaxChunks)
	if err != nil {
		return err
	}
	n, err := r.number("n", 1, maxMarks)
	if err != nil {
		return err
	}
	share := int64(t.cfg.ChunkBytes) / markShare
	if err := t.spare(r, n*share); err != nil { // one turn for all: some of them are of no use
		return err
	}
	marks := make([]mark, n)
	for i := range marks {
		if marks[i], err = t.markOf(r, first+int64(i)); err != nil {
			t.unspent(r, (n-int64(i))*share)
			return err
		}
	}
	t.send(w, encodeMarks(marks))
	return nil
}

// markOf reads one chunk, in a hold of its own.
func (t *HTTP) markOf(r request, i int64) (mark, error) {
	o, err := t.window.hold(r.ctx, r.version)
	if err != nil {
		return 0, err
	}
	defer t.window.release(o, r.version)
	m := &manifest{Layout: o.view.Layout, chunkBytes: int64(t.cfg.ChunkBytes)}
	if n := int64(m.chunks()); i >= n {
		return 0, refuse(http.StatusRequestedRangeNotSatisfiable, "chunk %d of %d", i, n)
	}
	from, to := m.bounds(int(i))
	return markOf(safetensors.Pieces(&o.view.Layout, o.view.Bytes, from, to)), nil
}

// serveData sends some bytes of the data section, with their mark.
func (t *HTTP) serveData(w http.ResponseWriter, r request) error {
	from, err := r.number("from", 0, safetensors.MaxStateBytes)
	if err != nil {
		return err
	}
	n, err := r.number("n", 1, MaxChunkBytes)
	if err != nil {
		return err
	}
	if err := t.spare(r, n); err != nil {
		return err
	}
	pool := t.buffersFor(r.version)
	b, err := pool.take(r.ctx, n)
	if err != nil {
		t.unspent(r, n)
		return refuse(http.StatusTooEarly, "too many readers")
	}
	defer pool.put(b)
	sum, err := t.read(r.ctx, r.version, b, from)
	if err != nil {
		t.unspent(r, n)
		return err
	}
	w.Header().Set(headerMark, sum.String())
	failpoint.At(r.Context(), failpoint.SendBefore)
	if id := r.query.Get("carrier"); id != "" {
		return t.sendCarried(w, r, id, b)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	half := len(b) / 2
	if !t.write(w, b[:half]) {
		return nil
	}
	failpoint.At(r.Context(), failpoint.SendDuring)
	if t.write(w, b[half:]) {
		failpoint.At(r.Context(), failpoint.SendAfter)
	}
	return nil
}

// buffersFor are those that readers of v share.
func (t *HTTP) buffersFor(v Version) *buffers {
	if v == Any {
		return t.spareBuffers
	}
	return t.buffers
}

// read copies a part of the data section in one hold.
func (t *HTTP) read(ctx context.Context, v Version, dst []byte, from int64) (mark, error) {
	o, err := t.window.hold(ctx, v)
	if err != nil {
		return 0, err
	}
	defer t.window.release(o, v)
	if size, n := o.view.Size(), int64(len(dst)); from > size || n > size-from {
		return 0, refuse(http.StatusRequestedRangeNotSatisfiable, "bytes [%d,%d) of %d", from, from+n, size)
	}
	return o.copyOut(dst, from), nil
}

// spare makes a reader that is not in the quorum wait for its turn. One that would wait for longer
// than it is held is sent away at once, to come back after a pause.
func (t *HTTP) spare(r request, n int64) error {
	if r.version == Any && t.pace.wait(r.ctx, n) != nil {
		return refuse(http.StatusServiceUnavailable, "other readers come first")
	}
	return nil
}

// unspent gives back what spare spent, where it was not read.
func (t *HTTP) unspent(r request, n int64) {
	if r.version == Any {
		t.pace.giveBack(n)
	}
}

// serveState sends the whole state as one file, if the owner does not go on
// meanwhile: then the response breaks off.
func (t *HTTP) serveState(w http.ResponseWriter, r request) error {
	o, err := t.window.hold(r.ctx, r.version)
	if err != nil {
		return err
	}
	version, head, size := o.version, o.head, o.view.Size()
	t.window.release(o, r.version)
	if r.version == Any {
		return refuse(http.StatusBadRequest, "version = %q, want one", string(Any))
	}
	b, err := t.buffers.take(r.ctx, min(max(size, 1), writeStep))
	if err != nil {
		return refuse(http.StatusTooEarly, "too many readers")
	}
	defer t.buffers.put(b)
	w.Header().Set("Content-Length", strconv.FormatInt(int64(len(head))+size, 10))
	t.write(w, head)
	for from := int64(0); from < size; {
		step := b[:min(int64(len(b)), size-from)]
		ctx, cancel := context.WithTimeout(r.Context(), maxHold)
		_, err := t.read(ctx, version, step, from)
		cancel()
		if err != nil || !t.write(w, step) {
			panic(http.ErrAbortHandler) // the one way to break a response off that net/http has
		}
		from += int64(len(step))
	}
	return nil
}

// holdOf is how long r may be held.
func holdOf(r *http.Request) time.Duration {
	ms, err := strconv.ParseUint(r.Header.Get(headerWait), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(ms)*time.Millisecond, maxHold)
}

// send writes a whole response.
func (t *HTTP) send(w http.ResponseWriter, b []byte) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	t.write(w, b)
}

// write says whether the reader took it. One that takes nothing for Timeout is
// cut off.
func (t *HTTP) write(w http.ResponseWriter, b []byte) bool {
	control := http.NewResponseController(w)
	for step := range slices.Chunk(b, writeStep) {
		_ = control.SetWriteDeadline(time.Now().Add(t.cfg.Timeout)) // unsupported only by fakes
		if _, err := w.Write(step); err != nil {
			t.cfg.Log.Debug().Err(err).Msg("reader lost")
			return false
		}
	}
	return true
}

// readText reads a refusal's text, bounded.
func readText(r io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(r, 1<<10))
	if err != nil && len(text) == 0 {
		return err.Error()
	}
	return safetensors.Clip(string(text))
}
