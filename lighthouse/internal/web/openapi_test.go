package web

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write openapi.json anew")

// TestOpenAPIDocument: what is served is what the routes and the types say.
func TestOpenAPIDocument(t *testing.T) {
	comments, err := commentsIn(os.DirFS("../../api"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := makeOpenAPI(comments)
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(openAPI, want) {
		t.Error("openapi.json is not what the routes and the types of package api say; run go generate ./lighthouse/internal/web")
	}
}
