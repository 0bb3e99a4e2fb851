// Package browser looks at the lighthouse's page with a real browser: Debian's chromium,
// without a window, driven by its own protocol.
//
//	go test ./test/browser -browser.look                        # the story, the looks
//	go test ./test/browser -run Big -v -browser.look -browser.big # what a full page costs
//	SKERRY_SCREENSHOTS=/tmp/shots go test ./test/browser -browser.look # and the pictures are kept there
//	scripts/axe go test ./test/browser -browser.look            # and axe-core judges the page
//
// Two kinds of servers are behind the page. The story has a real lighthouse of three servers
// and real managers. Looks and loads have a server of this package's own (world), which
// speaks /api/v1 and can be in any state at once: a thousand replicas, a heal that
// stands still, a name that is an attack. The page's files come from a real lighthouse
// in both, with its headers.
//
// Without chromium the tests are skipped, and say so. A console error fails a test.
package browser
