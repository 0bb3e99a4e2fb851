package web

import (
	_ "embed" // the document
	"net/http"

	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/lighthouse/internal/openapi"
)

//go:generate go test -count=1 -run TestOpenAPIDocument . -rewrite

//go:embed openapi.json
var openAPI []byte

// makeOpenAPI makes the document that is committed as openapi.json, with the comments of
// package api.
func makeOpenAPI(comments map[string]string) ([]byte, error) {
	var routes []openapi.Route
	for _, r := range (&Server{actions: noActions{}}).apiRoutes() {
		routes = append(routes, r.Route)
	}
	return openapi.Make(openapi.Info{
		Title: "Skerry lighthouse", Version: "1",
		Doc: "What a lighthouse knows and does. Times that end in at_ms, since_ms, started_ms, created_ms, until_ms and now_ms are " +
			"Unix milliseconds, other _ms are durations. What is absent is not known. Texts come from elsewhere: show them as text.",
		Failure: api.Failure{},
	}, routes, comments)
}

// noActions is for routes that are only read.
type noActions struct{ Actions }

func serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	tag := etag(openAPI)
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", tag)
	if matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(openAPI) // a reader who has gone needs no error
}
