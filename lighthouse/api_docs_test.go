package lighthouse_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/lighthouse/api"
)

var (
	shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")
	jsonBlock  = regexp.MustCompile("(?s)```json\n(.*?)```")
	apiPath    = regexp.MustCompile("`(?:GET|POST) (/[^`]*)`")
)

// TestDocumentedRequestsWork runs the examples of docs/API.md, line by line, as a reader
// would.
func TestDocumentedRequestsWork(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
	l := start(t, nil)
	form(t, l.Addr, "replica-0", "replica-1")
	home := t.TempDir()
	// An error is one, and what goes on is cut.
	if err := os.WriteFile(filepath.Join(home, ".curlrc"), []byte("fail\nnoproxy = \"*\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			if strings.Contains(line, "https://") {
				continue // this server has no certificate; test/docs holds the line against the page
			}
			line = strings.ReplaceAll(strings.TrimSpace(line), "http://127.0.0.1:29510", l.URL(""))
			endless := strings.Contains(line, "curl -sN")
			if endless {
				line = strings.Replace(line, "curl ", "curl --max-time 1 ", 1)
			}
			if _, err := exec.LookPath("curl"); err != nil {
				t.Skip("curl is not installed")
			}
			run := exec.CommandContext(t.Context(), "sh", "-c", line)
			run.Env = append(os.Environ(), "CURL_HOME="+home)
			out, err := run.CombinedOutput()
			exit, cut := errors.AsType[*exec.ExitError](err)
			if err != nil && (!cut || !endless || exit.ExitCode() != 28) { // 28: the time has passed
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			if strings.Contains(line, " -d ") == (len(out) > 0) {
				t.Errorf("%s: answers %q", line, out)
			}
			ran++
		}
	}
	if ran < 10 {
		t.Errorf("%d examples: the test reads them wrongly", ran)
	}
	examples := jsonBlock.FindAllStringSubmatch(string(text), -1)
	if len(examples) != 1 {
		t.Fatalf("%d examples of errors, want one", len(examples))
	}
	var shown api.Failure
	if err := json.Unmarshal([]byte(examples[0][1]), &shown); err != nil {
		t.Fatal(err)
	}
	got := answered[api.Failure](t, call(t, "POST", l.URL("/api/v1/jobs/default/replicas/replica-9/drain"), `{"reason":"x"}`), http.StatusNotFound)
	if got != shown {
		t.Errorf("an unknown replica is answered %+v, and docs/API.md shows %+v", got, shown)
	}
}

// TestDocumentedPathsAreServed: of the paths that docs/API.md lists.
func TestDocumentedPathsAreServed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
	described := answered[struct{ Paths map[string]any }](t, call(t, "GET", start(t, nil).URL("/api/v1/openapi.json"), ""), http.StatusOK)
	for path := range described.Paths {
		verb := path[strings.LastIndex(path, "/")+1:]
		if !strings.Contains(string(text), path) && !strings.Contains(string(text), "…/"+verb+"`") {
			t.Errorf("docs/API.md does not name %s", path)
		}
	}
	listed := 0
	for _, m := range apiPath.FindAllStringSubmatch(string(text), -1) {
		if path := m[1]; strings.HasPrefix(path, "/api/") {
			listed++
			if _, ok := described.Paths[path]; !ok {
				t.Errorf("docs/API.md names %s, which the document of the API has not", path)
			}
		}
	}
	if listed < 7 {
		t.Errorf("%d paths: the test reads them wrongly", listed)
	}
}
