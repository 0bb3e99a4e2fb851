package web

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/internal/perhost"
)

// streamLimits bound the open streams: of all, of a host other than this one, and of any
// host while half of all are taken.
var streamLimits = perhost.Limits{Max: 512, PerHost: 128, Scarce: 64}

const (
	// writePatience is how long a reader of a stream may take for one piece.
	writePatience = 10 * time.Second

	// pieceBytes is one piece: a large state takes its time on a slow line.
	pieceBytes = 16 << 10

	// unreadBytes bounds what the system keeps for a reader (Linux: twice as much), and
	// unreadPatience for how long it keeps that where nothing is taken.
	unreadBytes    = 64 << 10
	unreadPatience = 30 * time.Second

	// pingEvery is how often a stream says something, so that what is in between keeps it.
	pingEvery = 15 * time.Second

	typeSSE    = "text/event-stream"
	typeNDJSON = "application/x-ndjson"

	pathStream = "/api/v1/stream"
	pathEvents = "/api/v1/events"
)

// isStream says whether a request is answered by a stream.
func isStream(r *http.Request) bool {
	return r.URL.Path == pathStream || r.URL.Path == pathEvents && formOf(r) != ""
}

// formOf is the form in which events go on; empty: those that there are, as JSON.
func formOf(r *http.Request) string {
	accept := r.Header.Get("Accept")
	switch {
	case strings.Contains(accept, typeSSE):
		return typeSSE
	case strings.Contains(accept, typeNDJSON), r.URL.Query().Get("follow") == "1":
		return typeNDJSON
	}
	return ""
}

// enterStream counts one more stream of the host that asks, and takes the limits of plain
// requests from it. Those that another server passes on were counted there.
func (s *Server) enterStream(w http.ResponseWriter, r *http.Request) (perhost.Place, error) {
	var host net.Addr
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && r.Context().Value(fellowKey{}) == nil {
		host = net.TCPAddrFromAddrPort(at)
	}
	place, err := s.streams.Enter(host)
	if err != nil {
		return place, failf(http.StatusServiceUnavailable, "busy", "streams: %w; close some, or poll /api/v1/status", err)
	}
	// As in unhurried: a stream lasts.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	boundUnread(r)
	return place, nil
}

// patient is a writer to a reader who may be slow, but not for ever.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Write ends with an error when the reader has not taken a piece in writePatience.
func (p patient) Write(b []byte) (n int, err error) {
	for err == nil && n < len(b) {
		p.wind()
		var took int
		took, err = p.ResponseWriter.Write(b[n:min(n+pieceBytes, len(b))])
		n += took
	}
	return n, err
}

// Unwrap is for http.ResponseController.
func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p patient) wind() {
	// A connection without deadlines is a test's.
	_ = p.control.SetWriteDeadline(time.Now().Add(writePatience))
}

// stream is an answer that goes on. It is owned by its handler's goroutine.
type stream struct {
	patient
	form string
}

// beginStream sends the header of a stream.
func beginStream(w http.ResponseWriter, form string) (stream, error) {
	st := stream{patient{w, http.NewResponseController(w)}, form}
	h := w.Header()
	h.Set("Content-Type", form)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would keep it back
	st.wind()
	w.WriteHeader(http.StatusOK)
	return st, st.control.Flush()
}

// send sends text at once.
func (st stream) send(text []byte) error {
	if _, err := st.Write(text); err != nil {
		return err
	}
	return st.control.Flush()
}

// serveStream tells a page what changes.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request) {
	q, err := s.queryOf(r)
	if err != nil {
		fail(w, r, err)
		return
	}
	place, err := s.enterStream(w, r)
	if err != nil {
		fail(w, r, err)
		return
	}
	defer place.Leave()
	v, err := s.hub.Watch(r.Context(), q.job)
	if err != nil {
		fail(w, r, err)
		return
	}
	defer v.Close()
	st, err := beginStream(w, typeSSE)
	if err != nil {
		return
	}
	defer st.wind() // for what ends the answer
	if r.Method == http.MethodHead {
		return
	}
	first := true
	for {
		select {
		case text, ok := <-v.Chunks():
			if !ok || st.send(text) != nil {
				return
			}
			if first && q.resumes { // what was told while the client was away
				if s.catchUp(st, q) != nil {
					return
				}
			}
			first = false
		case <-r.Context().Done():
			return
		}
	}
}
