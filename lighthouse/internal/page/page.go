// Package page is the lighthouse's dashboard: one page with its style and its scripts, as
// files that are compiled in. It needs no internet, no build step and no framework.
//
// The page asks the server that it came from, and that one alone (Policy): it lives by
// GET /api/v1/stream, falls back to GET /api/v1/status, and acts by the POSTs of /api/v1.
// What it shows it only renders: causes, states and sentences are the server's.
//
// The scripts, by what they know:
//
//	words.js      how states, causes, times and sizes are said; knows no document
//	dom.js        makes and patches elements; all text goes in as text
//	store.js      the status document and the events, and how patches change them
//	live.js       the stream, the polling, and whether the lighthouse is away
//	api.js        requests that are not the stream
//	timeline.js   one job's time axis
//	story.js      its quorum changes, its events
//	replicas.js   its replicas, as cards and as a table
//	dialogs.js    what asks for a reason, and then acts
//	job.js        one job; puts the five above together
//	servers.js    the lighthouse's servers
//	main.js       the frame: which jobs are open, when to draw
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed files
var files embed.FS

// Policy is the page's Content-Security-Policy: its own files, its own server, no inline
// script or style. What a replica is called, or says, can so run nowhere.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Assets is the path under which the page's files are.
const Assets = "/assets/"

// Index answers with the page itself. It is safe for concurrent use, as is Files.
func Index() http.Handler { return serve(func(*http.Request) string { return "index.html" }) }

// Files answers for the paths below Assets with the page's style and scripts.
func Files() http.Handler {
	return serve(func(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, Assets) })
}

// serve answers with the file of that name, or that the browser has it already. Browsers
// ask each time: a server that was updated is seen at once.
func serve(name func(*http.Request) string) http.Handler {
	all := load()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ok := all[name(r)]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", Policy)
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", f.tag)
		if r.Header.Get("If-None-Match") == f.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", f.kind)
		_, _ = w.Write(f.data) // a reader who has gone needs no error
	})
}

// file is one of the page's, by name below the folder.
type file struct {
	data      []byte
	kind, tag string
}

// kinds are the media types of the page's files: those of the machine's own table may be odd.
var kinds = map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

func load() map[string]file {
	entries, err := files.ReadDir("files")
	if err != nil {
		panic(err) // it is compiled in
	}
	all := make(map[string]file)
	for _, e := range entries {
		data, err := files.ReadFile("files/" + e.Name())
		if err != nil {
			panic(err) // it is compiled in
		}
		sum := sha256.Sum256(data)
		all[e.Name()] = file{
			data: data, tag: `"` + hex.EncodeToString(sum[:8]) + `"`,
			kind: mime.FormatMediaType(kinds[path.Ext(e.Name())], map[string]string{"charset": "utf-8"}),
		}
	}
	return all
}
