package page_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/lighthouse/internal/page"
)

func mux() *http.ServeMux {
	m := http.NewServeMux()
	m.Handle("GET /{$}", page.Index())
	m.Handle("GET "+page.Assets, page.Files())
	return m
}

func get(t *testing.T, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	mux().ServeHTTP(w, r)
	return w
}

// Each file that the page, its style and its scripts name is there, and each that is there is
// named: a page with a part missing shows nothing at all.
func TestEveryFileIsThereAndUsed(t *testing.T) {
	t.Parallel()
	named := map[string]bool{"index.html": true, "main.js": true}
	for _, pattern := range []string{`/assets/([a-z]+\.[a-z]+)`, `from "\./([a-z]+\.js)"`} {
		for name, text := range sources(t) {
			for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
				named[m[1]] = true
				if w := get(t, page.Assets+m[1]); w.Code != http.StatusOK {
					t.Errorf("%s names %s: %d", name, m[1], w.Code)
				}
			}
		}
	}
	for name := range sources(t) {
		if !named[name] {
			t.Errorf("%s is compiled in, and no file names it", name)
		}
		if strings.HasSuffix(name, ".js") && name != "main.js" && !strings.Contains(sources(t)["index.html"], `modulepreload" href="/assets/`+name) {
			t.Errorf("index.html has no modulepreload for %s: the page waits for it in a chain", name)
		}
	}
}

// The page runs nothing that came with a name: no inline script or style, no HTML made of text.
func TestNothingInline(t *testing.T) {
	t.Parallel()
	if strings.Contains(page.Policy, "unsafe") {
		t.Errorf("Policy = %q, want nothing unsafe in it", page.Policy)
	}
	bad := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|javascript:|https?://[^w]`)
	for name, text := range sources(t) {
		if found := bad.FindString(text); found != "" {
			t.Errorf("%s: %q is not for this page", name, found)
		}
		if name == "index.html" && regexp.MustCompile(`<style|<script>| on[a-z]+=| style=`).MatchString(text) {
			t.Errorf("%s has an inline script or style, which Policy forbids", name)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	w := get(t, "/")
	if got := w.Header().Get("Content-Security-Policy"); got != page.Policy {
		t.Errorf("GET /: policy %q", got)
	}
	for path, want := range map[string]string{"/": "text/html; charset=utf-8", "/assets/main.js": "text/javascript; charset=utf-8", "/assets/style.css": "text/css; charset=utf-8"} {
		if got := get(t, path).Header().Get("Content-Type"); got != want {
			t.Errorf("GET %s: type %q, want %q", path, got, want)
		}
	}
	tag := w.Header().Get("ETag")
	if again := get(t, "/", "If-None-Match", tag); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("GET / with its tag %s: %d and %d bytes, want 304 and none", tag, again.Code, again.Body.Len())
	}
	for _, path := range []string{"/assets/", "/assets/none.js", "/assets/files/main.js"} {
		if w := get(t, path); w.Code != http.StatusNotFound {
			t.Errorf("GET %s: %d, want 404", path, w.Code)
		}
	}
}

func sources(t *testing.T) map[string]string {
	t.Helper()
	dir := os.DirFS("files")
	names, err := fs.Glob(dir, "*")
	if err != nil || len(names) < 10 {
		t.Fatalf("files: %v, %v", names, err)
	}
	all := make(map[string]string)
	for _, name := range names {
		data, err := fs.ReadFile(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(data)
	}
	return all
}
