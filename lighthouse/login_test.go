package lighthouse_test

import (
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// formOrigin is the Origin that a browser sends with a form's POST from a page at
// origin to its own site. The page's Referrer-Policy decides: that is in the Fetch
// standard, "append a request Origin header". A fetch of a script sends the
// origin whatever the policy is.
func formOrigin(origin, policy string) string {
	words := strings.Split(policy, ",") // the last one that the browser knows counts
	if strings.TrimSpace(words[len(words)-1]) == "no-referrer" {
		return "null"
	}
	return origin
}

// postForm finds the forms of a page.
var postForm = regexp.MustCompile(`<form method="post" action="([^"]+)"`)

// readPage returns a page's only form, and the Origin that comes with it.
func readPage(t *testing.T, b *http.Client, at, path string) (action, origin string) {
	t.Helper()
	resp, err := b.Get(at + path)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // read to its end
	if err != nil {
		t.Fatal(err)
	}
	forms := postForm.FindAllSubmatch(body, -1)
	if resp.StatusCode != http.StatusOK || len(forms) != 1 {
		t.Fatalf("GET %s: %d with %d forms, want 200 and one:\n%s", path, resp.StatusCode, len(forms), body)
	}
	// What formOrigin reads is all that decides.
	for _, other := range []string{`name="referrer"`, "referrerpolicy", "noreferrer"} {
		if strings.Contains(string(body), other) {
			t.Errorf("GET %s: the page has %s, which overrides the header", path, other)
		}
	}
	return string(forms[0][1]), formOrigin(at, resp.Header.Get("Referrer-Policy"))
}

// TestFormsWorkInABrowser: with the Origin that a browser makes by the policy that
// came with the page, the login and torchft's button get through, and what has no
// origin, as a sandboxed frame of anybody's, does not.
func TestFormsWorkInABrowser(t *testing.T) {
	t.Parallel()
	c := guardtest.New(t)
	o := guard.Options{TokenFile: filepath.Join(c.Dir, "token")}
	l := lighthousetest.Start(t, func(cfg *lighthouse.Config) { cfg.Guard = o })
	r, _ := open(t, guarded(t, guardtest.Open(t, o), l.Addr), hello("a"))
	r.answer(r.join(quorum.JoinFall, nil)) // its manager's address is one where nobody listens
	b, at := browser(t, nil), "http://"+l.Addr
	token := url.Values{"token": {string(c.Token.Reveal())}}

	action, origin := readPage(t, b, at, "/login")
	if got := request(t, b, "POST", at+action, token, "Origin", "null"); got != http.StatusForbidden {
		t.Errorf("a login of no origin: %d, want 403", got)
	}
	if got := request(t, b, "POST", at+action, token, "Origin", origin); got != http.StatusSeeOther {
		t.Fatalf("a login with Origin %s, as the page's Referrer-Policy makes it: %d, want 303", origin, got)
	}
	action, origin = readPage(t, b, at, "/status")
	if got := request(t, b, "POST", at+action, url.Values{}, "Origin", "null"); got != http.StatusForbidden {
		t.Errorf("torchft's button of no origin: %d, want 403", got)
	}
	if got := request(t, b, "POST", at+action, url.Values{}, "Origin", origin); got != http.StatusBadGateway {
		t.Errorf("torchft's button with Origin %s, as the page's Referrer-Policy makes it: %d, want 502, from the manager", origin, got)
	}
	if got := request(t, b, "POST", at+"/jobs/default/replicas/a/drain", nil, "Origin", at); got != http.StatusNoContent {
		t.Errorf("a button of the page: %d, want 204", got)
	}
}

// TestReferrerPolicy holds the header on every answer: no other site learns an
// address of ours, and the pages' own forms keep their Origin, which the check of
// other sites needs. With no-referrer browsers send "Origin: null", and nobody can
// log in.
func TestReferrerPolicy(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, nil)
	for _, path := range []string{"/", "/login", "/status", "/status.json", "/nonsense"} {
		resp, err := browser(t, nil).Get(l.URL(path))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // its header is what matters
		if got := resp.Header.Values("Referrer-Policy"); len(got) != 1 || got[0] != "same-origin" {
			t.Errorf("GET %s: Referrer-Policy %q, want same-origin", path, got)
		}
	}
}
