package web

import (
	_ "embed" // the document
	"net/http"
)

//go:generate go test -count=1 -run TestOpenAPIDocument . -rewrite

// openAPI is what TestOpenAPIDocument makes of the routes and the types of package api.
//
//go:embed openapi.json
var openAPI []byte

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
