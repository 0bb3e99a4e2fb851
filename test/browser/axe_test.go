package browser

import (
	"os"
	"strings"

	"github.com/chromedp/chromedp"
)

// axe has axe-core judge the page as it is. scripts/axe fetches it and says where it is;
// where it cannot be had the page goes unjudged, and the test says so.
func (b *tab) axe() {
	b.t.Helper()
	path := os.Getenv("SKERRY_AXE")
	if path == "" {
		b.t.Log("axe-core was not run: scripts/axe fetches it")
		return
	}
	script, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	run(b, chromedp.Evaluate[chromedp.Void](string(script)))
	found := eval[[]string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r =>
		r.violations.map(v => v.id + " (" + v.impact + "): " + v.help + "\n  " + v.nodes.slice(0, 4).map(n => n.html.slice(0, 200) + " " + (n.any[0] || n.all[0] || n.none[0] || {message: ""}).message).join("\n  ")))`)
	if len(found) > 0 {
		b.t.Errorf("axe found %d rules broken:\n%s", len(found), strings.Join(found, "\n"))
	}
}
