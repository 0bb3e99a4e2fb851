package lighthouse_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
	"github.com/skerry-ft/skerry/quorum"
)

// fetch makes a request and returns its status and body.
func fetch(t testing.TB, method, url string, header map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := httpClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // read to its end
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestStatusPageAndMetricsAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, minReplicas(2))
		_, q := form(t, l.Addr, "a", "b")
		for path, want := range map[string][]string{
			"/":             {"<!doctype html>", "/assets/main.js"},
			"/healthz":      {"ok"},
			"/metrics":      {`skerry_lighthouse_quorums_formed_total{job="default"} 1`, "skerry_lighthouse_sessions 2", "skerry_lighthouse_build_info{", `skerry_lighthouse_standing{job="default"} 1`, `skerry_lighthouse_replicas{job="default",state="live"} 2`, `skerry_lighthouse_lost_total{job="default",reason="stream"} 0`, "skerry_lighthouse_raft_applied_index", `skerry_lighthouse_members{job="default"} 2`, "skerry_lighthouse_raft_applies_total", "skerry_lighthouse_decide_seconds_count", "go_goroutines"},
			"/debug/pprof/": {"goroutine"},
		} {
			code, body := fetch(t, http.MethodGet, l.URL(path), nil)
			if code != http.StatusOK {
				t.Errorf("GET %s: %d", path, code)
			}
			for _, part := range want {
				if !strings.Contains(body, part) {
					t.Errorf("GET %s does not say %q", path, part)
				}
			}
		}
		_, body := fetch(t, http.MethodGet, l.URL("/status.json"), nil)
		var st lighthouse.Status
		if err := json.Unmarshal([]byte(body), &st); err != nil {
			t.Fatal(err)
		}
		if len(st.Jobs) != 1 || st.Jobs[0].QuorumID != q.ID || len(st.Jobs[0].Replicas) != 2 || !st.Jobs[0].Stands ||
			st.Jobs[0].Replicas[0].State != "live" || st.Cluster != q.Cluster || len(st.Jobs[0].History) != 1 {
			t.Errorf("status %+v", st)
		}
		if code, _ := fetch(t, http.MethodGet, l.URL("/nonsense"), nil); code != http.StatusNotFound {
			t.Errorf("GET /nonsense: %d, want 404", code)
		}
	})
}

// Buttons work from the page, and from no other site.
func TestButtonsRefuseOtherSites(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		all, _ := form(t, l.Addr, "team/a")
		drain := l.URL("/jobs/default/replicas/team%2Fa/drain")
		for name, tc := range map[string]struct {
			method string
			header map[string]string
			want   int
		}{
			"another site":         {"POST", map[string]string{"Origin": "http://evil.example"}, http.StatusForbidden},
			"another site, marked": {"POST", map[string]string{"Sec-Fetch-Site": "cross-site"}, http.StatusForbidden},
			"another port":         {"POST", map[string]string{"Origin": "http://127.0.0.1:1"}, http.StatusForbidden},
			"opaque origin":        {"POST", map[string]string{"Origin": "null"}, http.StatusForbidden},
			"a link":               {"GET", nil, http.StatusMethodNotAllowed},
		} {
			if code, body := fetch(t, tc.method, drain, tc.header); code != tc.want {
				t.Errorf("%s: %d %s, want %d", name, code, body, tc.want)
			}
		}
		if got := replicaStatus(t, l, "team/a").State; got != "live" {
			t.Fatalf("after refused requests team/a is %s, want live", got)
		}
		for path, want := range map[string]int{
			"/jobs/default/replicas/nobody/drain": http.StatusNotFound,
			"/jobs/none/replicas/team%2Fa/drain":  http.StatusNotFound,
			"/jobs/a%20b/replicas/x/evict":        http.StatusBadRequest,
		} {
			if code, body := fetch(t, http.MethodPost, l.URL(path), nil); code != want {
				t.Errorf("POST %s: %d %s, want %d", path, code, body, want)
			}
		}
		header := map[string]string{"Origin": l.URL(""), "Sec-Fetch-Site": "same-origin"}
		if code, body := fetch(t, http.MethodPost, drain, header); code != http.StatusNoContent {
			t.Errorf("drain from the page: %d %s", code, body)
		}
		all[0].next("drain notice", func(d *skerrypb.Down) bool { return d.GetDrain() != nil })
	})
}

// ourManager and torchftManager note the kills that they are asked for.
type ourManager struct {
	skerrypb.UnimplementedManagerServer
	killed chan<- string
}

func (m ourManager) Kill(_ context.Context, req *skerrypb.KillRequest) (*skerrypb.KillResponse, error) {
	m.killed <- "ours: " + req.GetMessage()
	return &skerrypb.KillResponse{}, nil
}

type torchftManager struct {
	torchftpb.UnimplementedManagerServiceServer
	killed chan<- string
}

func (m torchftManager) Kill(_ context.Context, req *torchftpb.KillRequest) (*torchftpb.KillResponse, error) {
	m.killed <- "torchft's: " + req.GetMsg()
	return &torchftpb.KillResponse{}, nil
}

// serveManagers serves on loopback until the test ends, and returns the address.
func serveManagers(t *testing.T, managers *grpc.Server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- managers.Serve(listener) }()
	t.Cleanup(func() {
		managers.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// In real time: the managers listen on loopback.
func TestKillCallsTheManager(t *testing.T) {
	t.Parallel()
	killed := make(chan string, 2)
	managers := grpc.NewServer(grpc.WaitForHandlers(true))
	skerrypb.RegisterManagerServer(managers, ourManager{killed: killed})
	torchftpb.RegisterManagerServiceServer(managers, torchftManager{killed: killed})
	address := "http://" + serveManagers(t, managers)
	l := lighthousetest.Start(t, nil)
	r, _ := open(t, dial(t, l.Addr), hello("a"))
	r.answer(r.join(quorum.JoinFall, func(j *quorum.Join) { j.Member.Address = address }))
	ctx, c := torchft(t, l)
	resp, err := c.Quorum(metadata.AppendToOutgoingContext(ctx, wire.JobMetadata, "old"), &torchftpb.LighthouseQuorumRequest{
		Requester: &torchftpb.QuorumMember{ReplicaId: "old/b:1", Address: address}})
	if err != nil || len(resp.GetQuorum().GetParticipants()) != 1 {
		t.Fatalf("torchft's quorum: %v, %v", resp, err)
	}
	for path, want := range map[string]string{
		"/jobs/default/replicas/a/kill":     "ours: asked for on the status page",
		"/jobs/old/replicas/old%2Fb:1/kill": "torchft's: asked for on the status page",
		"/replica/a/kill":                   "ours: asked for on the status page",
		"/replica/old%2Fb:1/kill":           "torchft's: asked for on the status page", // its job is named by its id
	} {
		if code, body := fetch(t, http.MethodPost, l.URL(path), nil); code/100 != 2 {
			t.Errorf("POST %s: %d %s", path, code, body)
			continue
		}
		if got := <-killed; got != want {
			t.Errorf("POST %s called %q, want %q", path, got, want)
		}
	}
	h := hello("gone") // names a port where nobody listens
	h.Job = "third"
	gone, _ := open(t, dial(t, l.Addr), h)
	gone.answer(gone.join(quorum.JoinFall, nil))
	if code, body := fetch(t, http.MethodPost, l.URL("/jobs/third/replicas/gone/kill"), nil); code != http.StatusBadGateway {
		t.Errorf("kill of a manager that is not there: %d %s, want %d", code, body, http.StatusBadGateway)
	}
}

// torchft's own paths answer: its dashboard's fragment, and, for a replica that
// is not known, a clear refusal.
func TestTorchftPathsAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *virtual) {
		l := start(t, nil)
		ctx, c := torchft(t, l)
		const odd = "<b>odd</b>:1"
		get(t, "a quorum", ask(ctx, c, odd, 7))
		code, body := fetch(t, http.MethodGet, l.URL("/status"), nil)
		for _, want := range []string{"Job default", "&lt;b&gt;odd&lt;/b&gt;:1", "<td>7</td>", `action="/replica/%3Cb%3Eodd%3C%2Fb%3E:1/kill"`} {
			if code != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("GET /status: %d, want 200 and %q in:\n%s", code, want, body)
			}
		}
		for path, want := range map[string]int{
			"/replica/nobody/kill":      http.StatusNotFound,
			"/replica/%3Cb%3Enone/kill": http.StatusNotFound,
		} {
			if code, body := fetch(t, http.MethodPost, l.URL(path), nil); code != want {
				t.Errorf("POST %s: %d %s, want %d", path, code, body, want)
			}
		}
		evil := map[string]string{"Origin": "http://evil.example"}
		if code, _ := fetch(t, http.MethodPost, l.URL("/replica/nobody/kill"), evil); code != http.StatusForbidden {
			t.Errorf("another site's kill: %d, want %d", code, http.StatusForbidden)
		}
	})
}
