package web

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"
)

// answer answers with v as JSON. like, if it is not nil, is v without what changes by
// itself, as ages do: an answer whose like is the same is not sent again to a client that
// has it (If-None-Match).
func answer(w http.ResponseWriter, r *http.Request, v, like any) {
	text, err := json.Marshal(v)
	if err != nil {
		fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if like != nil {
		same, err := json.Marshal(like)
		if err != nil {
			fail(w, r, err)
			return
		}
		tag := etag(same)
		h.Set("ETag", tag)
		h.Set("Cache-Control", "no-cache") // kept, and asked for again each time
		if matches(r.Header.Get("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	} else {
		h.Set("Cache-Control", "no-store")
	}
	_, _ = w.Write(append(text, '\n')) // a reader who has gone needs no error
}

// etag is a weak one: the answer may be compressed, and ages in it may be older.
func etag(text []byte) string {
	sum := sha256.Sum256(text)
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// matches says whether If-None-Match names the tag.
func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == "*" || one == tag {
			return true
		}
	}
	return false
}

// minCompressed is what is worth compressing.
const minCompressed = 1 << 10

// compressed compresses what h answers with, if the client takes that, but for streams: of
// those each viewer would cost a compressor.
func (s *Server) compressed(h http.HandlerFunc) http.HandlerFunc {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(minCompressed))
	if err != nil {
		return h // its options are those above
	}
	zipped := wrap(h)
	return func(w http.ResponseWriter, r *http.Request) {
		if isStream(r) {
			h(w, r)
			return
		}
		zipped(w, r)
	}
}

// unhurried lets a handler take longer than a request's header may.
func unhurried(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// The deadline for reading would end the request's context. Without one the
		// connection is watched for its end all the same.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // none can be set: there is none
		h(w, r)
	}
}
