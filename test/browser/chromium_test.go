package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience bounds a wait for the page. It is long, because a failure is rare and a busy
// machine is not.
const patience = 60 * time.Second

// tab is a page in a browser of its own. It is owned by one goroutine.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	troubles []string // console errors, exceptions, refused content
	received int64    // bytes over the network
	forgiven []string // what a console error may say
}

// openTab starts a browser, or skips the test where there is none. What the page says on
// its console fails the test in the end, unless it is forgiven. It is opened after the servers
// that it asks, so that it is closed before them.
func openTab(t *testing.T) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1280, 900))
	ctx, stopBrowser := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(ctx)
	b := &tab{t: t, ctx: ctx}
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it ends, whatever it says
		closeTab()
		stopBrowser()
		b.judge()
	})
	if err := chromedp.Listen(ctx, b.listen); err != nil { // it starts the browser, which ends with ctx
		t.Fatalf("start chromium: %v", err)
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, cdplog.Enable, cdp.Empty{})
	return b
}

// chromium is the browser's path.
func chromium(t *testing.T) string {
	t.Helper()
	if !*look {
		t.Skip("a browser takes two minutes: -browser.look")
	}
	for _, name := range []string{os.Getenv("SKERRY_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no browser: install chromium, or name one in SKERRY_CHROMIUM")
	return ""
}

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		trouble := "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			trouble += " " + e.ExceptionDetails.Exception.Description
		}
		b.troubles = append(b.troubles, trouble)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			b.troubles = append(b.troubles, fmt.Sprintf("console: %s %s", e.Type, e.Args[0].Value))
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			b.troubles = append(b.troubles, fmt.Sprintf("log: %s %s", e.Entry.Text, e.Entry.URL))
		}
	case *network.EventDataReceived:
		b.received += e.EncodedDataLength
	}
}

// forgive lets the console say what has part in it: a test that stops a server wants
// a failed request.
func (b *tab) forgive(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgiven = append(b.forgiven, part)
}

func (b *tab) judge() {
	b.mu.Lock()
	defer b.mu.Unlock()
next:
	for _, trouble := range b.troubles {
		for _, part := range b.forgiven {
			if strings.Contains(trouble, part) {
				continue next
			}
		}
		b.t.Errorf("the page's console: %s", trouble)
	}
}

// bytes is how much has come over the network.
func (b *tab) bytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.received
}

// run runs an action, within patience.
func run[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("the browser: %v", err)
	}
	return value
}

// call sends a command of the browser's protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	return run(b, func(ctx context.Context, target *chromedp.Target) (R, error) {
		return cdp.Call(ctx, target, command, params)
	})
}

func (b *tab) open(url string) {
	b.t.Helper()
	run(b, chromedp.Navigate(url))
}

// eval is the value of a script's expression.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// until waits until an expression is true, over a change of the page and over what is not
// there yet. It fails with what the page shows.
func (b *tab) until(what, script string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	try := chromedp.Evaluate[bool]("Promise.resolve("+script+").then(Boolean)", chromedp.EvalAwaitPromise)
	for {
		ok, err := chromedp.Run(ctx, try)
		if ok && err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.shoot("failed")
			b.t.Fatalf("waited for: %s (%v)\n%s", what, err, eval[string](b, "document.body.innerText"))
		}
	}
}

// says waits until the elements of a selector have a text in them.
func (b *tab) says(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("%s says %q", selector, text),
		fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.innerText.includes(%q))", selector, text))
}

// click presses the first button or link that has that label, within a selector.
func (b *tab) click(within, label string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll(%q)].flatMap(e => [...e.querySelectorAll("button, a, summary")]).find(e =>
		(e.innerText.trim() === %q || e.getAttribute("aria-label") === %q) && e.checkVisibility())`, within, label, label)
	b.until(within+" has "+label, "!!("+find+")")
	run(b, chromedp.Evaluate[chromedp.Void]("("+find+").click()"))
}

// dress sets what a user may have set: dark colours, a narrow screen.
func (b *tab) dress(dark bool, width, height int64) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
}

// shoot keeps a picture of the whole page.
func (b *tab) shoot(name string) {
	b.t.Helper()
	png := run(b, chromedp.FullScreenshot(100))
	dir := os.Getenv("SKERRY_SCREENSHOTS")
	if dir == "" {
		dir = b.t.TempDir()
	}
	path := filepath.Join(dir, strings.ReplaceAll(b.t.Name(), "/", "-")+"-"+name+".png")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, png, 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("a picture: %s", path)
}

// fill types a value into a field.
func (b *tab) fill(selector, value string) {
	b.t.Helper()
	run(b, chromedp.SetValue(selector, value))
}

// reason gives a reason in the open dialog, and confirms it.
func (b *tab) reason(why string) {
	b.t.Helper()
	b.fill("dialog[open] #reason", why)
	b.click("dialog[open] .buttons", eval[string](b, `document.querySelector("dialog[open] button.main").innerText`))
}
