package browser

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// cast is the replicas of a story: processes that train package digits.
type cast struct {
	t       *testing.T
	trainer string
	servers *lighthousetest.Cluster
}

// enter starts a replica of a job.
func (c *cast) enter(job string, index, replicas, steps int) *testkit.Program {
	c.t.Helper()
	env := []string{"SKERRY_JOB=" + job, "SKERRY_LIGHTHOUSE=" + strings.Join(c.servers.Addresses(), ",")}
	return testkit.Start(c.t, fmt.Sprintf("%s/replica-%d", job, index), env, c.trainer,
		"-index", fmt.Sprint(index), "-replicas", fmt.Sprint(replicas), "-steps", fmt.Sprint(steps), "-step-time", "40ms", "-linger", "1s")
}

// The whole story, with nothing made up: a lighthouse of three servers, replicas that train in
// processes of their own, and an operator who has only the page of one that follows.
func TestStory(t *testing.T) {
	servers := lighthousetest.StartCluster(t, 3, lighthousetest.Options{Change: func(_ int, c *lighthouse.Config) { c.Rules.MinReplicas = 2 }})
	c := &cast{t: t, trainer: testkit.Build(t, t.TempDir(), "examples/digits/trainer"), servers: servers}
	b := openTab(t)
	b.forgive("502") // while a server that was asked finds out who leads
	b.forgive("503")
	mine := servers.Followers()[0]
	b.open(servers.Servers[mine].URL("/"))
	b.says("main", "No job has come yet")
	b.says("#servers", "answered by "+servers.Servers[servers.Leader()].Addr)
	c.tooFew(b)
	c.killedFromThePage(b)
	c.finished(b)
	c.leaders(b, mine)
}

// tooFew: one replica is here, and two are wanted.
func (c *cast) tooFew(b *tab) {
	c.enter("vision", 0, 4, 1_000_000)
	b.says("[data-state=waiting] .callout", "No quorum can be formed")
	b.axe()
	b.shoot("too-few")
}

// killedFromThePage: of four one is killed from the page, and comes back.
func (c *cast) killedFromThePage(b *tab) {
	running := []*testkit.Program{nil}
	for i := 1; i < 4; i++ {
		running = append(running, c.enter("vision", i, 4, 1_000_000))
	}
	b.until("four are live", live(4))
	press(b, "kill replica-2")
	b.axe()
	b.shoot("dialog")
	b.reason("a drill")
	running[2].Exits()
	b.until("its death is told with its cost", `[...document.querySelectorAll("[data-job=vision] .line.change.bad")].some(e =>
		e.innerText.includes("replica-2") && / ms lost|\d s lost/.test(e.querySelector(".cost").innerText))`)
	c.enter("vision", 2, 4, 1_000_000)
	b.until("four are live again", live(4))
	b.until("the axis has its death, its heal", `["death", "join", "heal"].every(k => document.querySelector("[data-job=vision] .tick." + k).getAttribute("d"))`)
	b.until("all is said", `document.getElementById("toast").textContent === ""`)
	b.shoot("readme")
	eval[bool](b, `(document.querySelectorAll("[data-job=vision] details").forEach(d => d.open = true), true)`)
	b.says(".event", "a drill")
	b.says(".event", "healed")
	b.axe()
	for _, v := range views {
		b.dress(v.dark, v.width, v.height)
		b.shoot("run-" + v.name)
	}
	b.dress(false, 1280, 900)
}

// finished: a short job ends, in good order.
func (c *cast) finished(b *tab) {
	for i := range 2 {
		c.enter("short", i, 2, 60)
	}
	b.says("[data-job=short][data-state=finished] .callout", "2 replicas went in good order")
	if red := eval[int](b, `document.querySelectorAll("[data-job=short] :is(.pill.bad, .callout.bad, .card.bad, .tile.bad)").length`); red != 0 {
		c.t.Errorf("a finished run has %d red things", red)
	}
	b.axe()
	b.shoot("finished")
}

// leaders: the leader is stopped, and the page of another server goes on. Then a second server is,
// and none leads: what is known stays in view.
func (c *cast) leaders(b *tab, mine int) {
	servers := c.servers
	old := servers.Leader()
	servers.Stop(old)
	b.says("#who", servers.Servers[servers.Leader()].Addr)
	step := `parseInt(document.querySelector("[data-job=vision] .tile b").textContent.replace(/\D/g, ""))`
	b.until("it trains on", step+" > 0")
	from := eval[int](b, step)
	b.until("steps rise", fmt.Sprintf("%s > %d", step, from))
	b.says("#link", "live")
	b.says(".event", "leads from now on")
	b.until("the death is still told", `[...document.querySelectorAll(".line.change.bad")].some(e => e.innerText.includes("replica-2"))`)
	b.axe()
	b.shoot("another-leader")

	servers.Stop(3 - old - mine)
	b.says("#trouble", "No server leads")
	b.until("the job is still in view", live(4))
	b.axe()
	b.shoot("no-leader")
}

// Where a token is set, all may look, and who acts is asked to log in with it.
func TestToken(t *testing.T) {
	t.Parallel()
	trusted := guardtest.New(t)
	file := filepath.Join(trusted.Dir, "token")
	l := lighthousetest.Start(t, func(c *lighthouse.Config) { c.Guard = lighthouse.Guard{TokenFile: file}; c.Rules.MinReplicas = 1 })
	trainer := testkit.Build(t, t.TempDir(), "examples/digits/trainer")
	replica := testkit.Start(t, "replica-0", []string{"SKERRY_TOKEN_FILE=" + file, "SKERRY_LIGHTHOUSE=" + l.Addr}, trainer, "-replicas", "1", "-steps", "1000000", "-linger", "1s")
	b := openTab(t)
	b.forgive("401")
	b.open(l.URL("/"))
	press(b, "drain replica-0")
	b.reason("a drill")
	b.says("dialog .error", "token")
	b.axe()
	b.click("dialog", "Log in with the token")
	b.until("the form is there", `!!document.querySelector("#token")`)
	b.axe()
	b.fill("#token", string(trusted.Token.Reveal()))
	b.click("form", "Log in")
	press(b, "drain replica-0")
	b.reason("a drill")
	if status := replica.Exits(); status != 0 {
		t.Errorf("the drained replica ended with status %d, want 0", status)
	}
	b.says(".departed", "drained")
	eval[bool](b, `(document.querySelectorAll("details").forEach(d => d.open = true), true)`)
	b.says(".event", "a drill")
}

// live is true when so many replicas of vision are live, and no other is there.
func live(n int) string {
	return fmt.Sprintf(`[...document.querySelectorAll("[data-job=vision]")].some(e =>
		e.querySelectorAll(".card").length === %d && [...e.querySelectorAll(".card .pills")].every(p => p.innerText.includes("live")))`, n)
}

// press clicks the button whose label begins so.
func press(b *tab, label string) {
	b.t.Helper()
	find := fmt.Sprintf("document.querySelector('button[aria-label^=%q]:not([hidden])')", label)
	b.until(label+" is there", "!!"+find)
	eval[bool](b, "("+find+".click(), true)")
}

// A replica is evicted from the page, and the rules are changed: why stands in the events. What
// cannot be taken back is told in words.
func TestEvictAndRules(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, func(c *lighthouse.Config) { c.Rules.MinReplicas = 1 })
	trainer := testkit.Build(t, t.TempDir(), "examples/digits/trainer")
	for i := range 2 {
		testkit.Start(t, fmt.Sprintf("replica-%d", i), []string{"SKERRY_LIGHTHOUSE=" + l.Addr}, trainer, "-index", fmt.Sprint(i), "-replicas", "2", "-steps", "1000000", "-linger", "1s")
	}
	b := openTab(t)
	b.open(l.URL("/"))
	b.until("two are live", `document.querySelectorAll(".card.good").length === 2`)
	press(b, "evict replica-1")
	b.reason("its fan is broken")
	b.says(".departed", "evicted")
	b.says(".departed", "its fan is broken")
	b.shoot("evicted")
	eval[bool](b, `(document.querySelectorAll("details").forEach(d => d.open = true), true)`)
	b.says(".event", "its fan is broken")
	b.click("main", "change the rules")
	b.fill("#rule-min_replicas", "2")
	b.reason("two are wanted")
	b.until("they are in force", `[...document.querySelectorAll(".facts div")].some(d => d.innerText.replace(/\s+/g, " ") === "Min replicas 2")`)
	b.says(".event", "two are wanted")
	b.axe()
	b.shoot("rules")
}
