package checkpoint_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/ckpttest"
	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/internal/nettest"
	"github.com/skerry-ft/skerry/tensor"
)

// front stands before a donor, forwards requests, counts the data bytes that
// it passes on, and misbehaves on demand.
type front struct {
	url  string
	hold func()      // called before each data response; nil: not
	busy func() bool // whether a request is told to come back; nil: not

	mu struct {
		sync.Mutex

		bytes     int64         // data bytes passed on
		chunks    map[int64]int // requests by offset
		dieAfter  int64         // data bytes, then every request breaks off; -1: never
		stallAt   int64         // as dieAfter, but silent until the target goes away
		flipEvery bool          // one bit of each data response
		marksLeft int           // responses with marks, then every request breaks off; 0: all
		stale     bool          // marks are of other bytes than those that are sent
		marked    int           // chunks whose marks were passed on
	}
}

func newFront(t *testing.T, donor checkpoint.Transport) *front {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newFrontAt(t, donor, ln, nil)
}

// newFrontAt is a front that listens and dials as it is told.
func newFrontAt(t *testing.T, donor checkpoint.Transport, ln net.Listener, dial dialer) *front {
	t.Helper()
	f := &front{url: "http://" + ln.Addr().String()}
	f.mu.chunks = make(map[int64]int)
	f.mu.dieAfter, f.mu.stallAt = -1, -1
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	s := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.forward(w, r, client, donor.Metadata())
	})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(ln) }) // until it is closed
	t.Cleanup(func() {
		_ = s.Close() // the test is over
		serving.Wait()
		client.CloseIdleConnections()
	})
	return f
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

func (f *front) forward(w http.ResponseWriter, r *http.Request, client *http.Client, donor string) {
	if f.busy != nil && f.busy() {
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, donor+r.URL.RequestURI(), nil)
	if err != nil {
		panic(err)
	}
	req.Header = r.Header
	resp, err := client.Do(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Skerry-Mark", resp.Header.Get("Skerry-Mark"))
	if r.URL.Path == "/v2/data" && resp.StatusCode == http.StatusOK {
		if f.hold != nil {
			f.hold()
		}
		f.data(w, r, body)
		return
	}
	if r.URL.Path == "/v2/marks" && resp.StatusCode == http.StatusOK {
		f.marks(body)
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(body) // a target that went away
}

func (f *front) marks(body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.marksLeft > 0 {
		if f.mu.marksLeft--; f.mu.marksLeft == 0 {
			f.mu.marksLeft, f.mu.dieAfter = 1, 0
			panic(http.ErrAbortHandler)
		}
	}
	n := len(body) - 4
	f.mu.marked += n / 8
	if f.mu.stale {
		for i := range n {
			body[i] ^= 1
		}
		binary.LittleEndian.PutUint32(body[n:], crc32.Checksum(body[:n], crc32.MakeTable(crc32.Castagnoli)))
	}
}

func (f *front) data(w http.ResponseWriter, r *http.Request, body []byte) {
	from, _ := strconv.ParseInt(r.FormValue("from"), 10, 64)
	f.mu.Lock()
	f.mu.chunks[from]++
	allowed, stall := int64(len(body)), false
	if f.mu.dieAfter >= 0 {
		allowed = min(allowed, max(0, f.mu.dieAfter-f.mu.bytes))
	}
	if f.mu.stallAt >= 0 && f.mu.bytes+allowed > f.mu.stallAt {
		allowed, stall = max(0, f.mu.stallAt-f.mu.bytes), true
	}
	f.mu.bytes += allowed
	if f.mu.flipEvery {
		body[len(body)/2] ^= 4
	}
	f.mu.Unlock()
	_, _ = w.Write(body[:allowed]) // a target that went away
	_ = http.NewResponseController(w).Flush()
	if stall {
		<-r.Context().Done()
	}
	if allowed < int64(len(body)) {
		panic(http.ErrAbortHandler)
	}
}

func (f *front) passed() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.bytes
}

// big is a state of several hundred chunks of the smallest size.
func big() checkpoint.State {
	s := ckpttest.NewState(11)
	s.Tensors["more"] = tensor.New(tensor.Float64, 40000)
	for i := range tensor.Slice[float64](s.Tensors["more"]) {
		tensor.Slice[float64](s.Tensors["more"])[i] = float64(i)
	}
	return s
}

func bytesOf(s checkpoint.State) (n int64) {
	for _, t := range s.Tensors {
		n += int64(t.NumBytes())
	}
	return n
}

const small = 16 << 10

// faulty makes a target and n donors of s behind fronts.
func faulty(t *testing.T, n int, s checkpoint.State) (*checkpoint.HTTP, []*front) {
	t.Helper()
	cfg := checkpoint.HTTPConfig{ChunkBytes: small, Timeout: 30 * time.Second}
	fronts := make([]*front, n)
	for i := range fronts {
		d := ckpttest.Running(t, cfg)
		if err := d.Serve("v", ckpttest.Saves(s)); err != nil {
			t.Fatal(err)
		}
		fronts[i] = newFront(t, d)
	}
	return ckpttest.Running(t, cfg), fronts
}

func urls(fronts []*front) (out []string) {
	for _, f := range fronts {
		out = append(out, f.url)
	}
	return out
}

// fetchOK fetches s, and returns how many bytes of data have come for it.
func fetchOK(t *testing.T, target *checkpoint.HTTP, fronts []*front, s checkpoint.State) (received int64) {
	t.Helper()
	into := ckpttest.Blank(s)
	m, err := checkpoint.NewMirror(into, checkpoint.MirrorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := target.Fetch(t.Context(), "v", urls(fronts), m); err != nil {
		t.Fatal(err)
	}
	if err := m.Install("v"); err != nil {
		t.Fatal(err)
	}
	ckpttest.Equal(t, into, s)
	return m.Received()
}

func TestFetchIsStripedAndNoByteComesTwice(t *testing.T) {
	t.Parallel()
	s := big()
	target, fronts := faulty(t, 3, s)
	var asked sync.WaitGroup // no donor answers before all have been asked
	for _, f := range fronts {
		asked.Add(1)
		once := sync.OnceFunc(asked.Done)
		f.hold = func() {
			once()
			asked.Wait()
		}
	}
	fetchOK(t, target, fronts, s)
	var total int64
	for i, f := range fronts {
		if f.passed() == 0 {
			t.Errorf("donor %d gave nothing", i)
		}
		total += f.passed()
	}
	if total != bytesOf(s) {
		t.Errorf("%d bytes were sent for a state of %d", total, bytesOf(s))
	}
}

func TestFetchGoesOnWhereADonorDied(t *testing.T) {
	t.Parallel()
	s := big()
	target, fronts := faulty(t, 2, s)
	fronts[0].mu.dieAfter = 5*small + 1234 // in the middle of a chunk
	if total := fetchOK(t, target, fronts, s); total != bytesOf(s) {
		t.Errorf("%d bytes came for a state of %d", total, bytesOf(s))
	}
	if got := fronts[0].passed(); got != fronts[0].mu.dieAfter {
		t.Errorf("the donor gave %d bytes before it died, want %d", got, fronts[0].mu.dieAfter)
	}
}

// In virtual time: the other donor is under the same limit.
func TestFetchGoesOnWhereADonorFellSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wire, s := nettest.New(), big()
		at := func(name string) (net.Listener, dialer) {
			host := wire.Host(name)
			ln, err := host.Listen("10.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			return ln, func(ctx context.Context, _, address string) (net.Conn, error) { return host.Dial(ctx, address) }
		}
		running := func(name string) *checkpoint.HTTP {
			ln, dial := at(name)
			return ckpttest.Running(t, checkpoint.HTTPConfig{
				Listener: ln, Dial: dial, Open: true, ChunkBytes: small, Timeout: 300 * time.Millisecond,
			})
		}
		var fronts []*front
		for i := range 2 {
			donor := running(fmt.Sprint("donor", i))
			if err := donor.Serve("v", ckpttest.Saves(s)); err != nil {
				t.Fatal(err)
			}
			ln, dial := at(fmt.Sprint("front", i))
			fronts = append(fronts, newFrontAt(t, donor, ln, dial))
		}
		fronts[1].mu.stallAt = small + 77
		fetchOK(t, running("target"), fronts, s)
	})
}

func TestFetchSurvivesBadBytes(t *testing.T) {
	t.Parallel()
	s := big()
	target, fronts := faulty(t, 2, s)
	fronts[0].mu.flipEvery = true
	fetchOK(t, target, fronts, s)
}

func TestFetchFailsWhenAllDonorsDo(t *testing.T) {
	t.Parallel()
	s := big()
	target, fronts := faulty(t, 2, s)
	fronts[0].mu.flipEvery = true
	fronts[1].mu.dieAfter = 3 * small
	_, err := ckpttest.Fetch(t.Context(), target, "v", urls(fronts), ckpttest.Blank(s))
	if !errors.Is(err, checkpoint.ErrNoDonor) || !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("fetch: %v, want ErrNoDonor and ErrCorrupt", err)
	}
	for _, f := range fronts {
		if !strings.Contains(fmt.Sprint(err), f.url) {
			t.Errorf("fetch: %v, want it to name donor %s", err, f.url)
		}
	}
}

// TestDonorsAreNotMixed: C1 says that donors hold the same bytes; if they do not,
// the state that comes is that of one of them.
func TestDonorsAreNotMixed(t *testing.T) {
	t.Parallel()
	s, other := big(), big()
	target, fronts := faulty(t, 1, s)
	for i := 0; i < other.Tensors["large"].NumBytes(); i += small {
		other.Tensors["large"].Bytes()[i] ^= 1
	}
	_, odd := faulty(t, 1, other)
	into := ckpttest.Blank(s)
	if _, err := ckpttest.Fetch(t.Context(), target, "v", urls(append(fronts, odd...)), into); err != nil {
		t.Fatal(err)
	}
	want := s
	if into.Tensors["large"].Bytes()[0] == other.Tensors["large"].Bytes()[0] {
		want = other // the first donor was slow to say what it has
	}
	ckpttest.Equal(t, into, want)
}

// TestFirstDonorDiesBetweenMarks: another one says what the state is, anew, and
// what is there stays.
func TestFirstDonorDiesBetweenMarks(t *testing.T) {
	t.Parallel()
	s := big()
	target, fronts := faulty(t, 2, s)
	fronts[0].mu.marksLeft = 3
	if total := fetchOK(t, target, fronts, s); total != bytesOf(s) {
		t.Errorf("%d bytes came for a state of %d", total, bytesOf(s))
	}
}

// TestATensorThatChangesBesideTheStep: it has another mark each time that it is
// read. The state comes all the same, with what it held when it was sent.
func TestATensorThatChangesBesideTheStep(t *testing.T) {
	t.Parallel()
	s := big()
	target, fronts := faulty(t, 1, s)
	fronts[0].hold = func() {} // the marks are known before the first data
	fronts[0].mu.stale = true
	fetchOK(t, target, fronts, s)
}

// TestWhatDiffersThroughoutIsNotCompared: of a state of which the target has nothing few
// marks are asked for; of one that it has but for a byte, all.
func TestWhatDiffersThroughoutIsNotCompared(t *testing.T) {
	t.Parallel()
	s := big()
	chunks := int(bytesOf(s)+small-1) / small
	target, fronts := faulty(t, 1, s)
	into := ckpttest.NewState(12) // other bytes, everywhere
	into.Tensors["more"] = tensor.New(tensor.Float64, 40000)
	for i := range tensor.Slice[float64](into.Tensors["more"]) {
		tensor.Slice[float64](into.Tensors["more"])[i] = -1
	}
	if _, err := ckpttest.Fetch(t.Context(), target, "v", urls(fronts), into); err != nil {
		t.Fatal(err)
	}
	ckpttest.Equal(t, into, s)
	if n := fronts[0].mu.marked; n < checkpoint.ProbesForTest || n > chunks/2 {
		t.Errorf("%d marks were asked for, of %d chunks", n, chunks)
	}
	target, fronts = faulty(t, 1, s)
	into.Tensors["large"].Bytes()[0] ^= 1
	if _, err := ckpttest.Fetch(t.Context(), target, "v", urls(fronts), into); err != nil {
		t.Fatal(err)
	}
	ckpttest.Equal(t, into, s)
	if n := fronts[0].mu.marked; n != chunks {
		t.Errorf("%d marks were asked for, want those of all %d chunks", n, chunks)
	}
	if n := fronts[0].passed(); n != small {
		t.Errorf("%d bytes came for one that differs, want a chunk of %d", n, small)
	}
}

// TestFirstDonorDiesUncompared: what has come of it stays, though it has said nothing of
// the rest.
func TestFirstDonorDiesUncompared(t *testing.T) {
	t.Parallel()
	for _, at := range []int64{small / 2, 20*small + 99, 60 * small} {
		s := big()
		target, fronts := faulty(t, 2, s)
		fronts[0].mu.dieAfter = at
		if total := fetchOK(t, target, fronts, s); total != bytesOf(s) {
			t.Errorf("dies after %d: %d bytes came for a state of %d", at, total, bytesOf(s))
		}
	}
}

// TestBrokenCopyIsGoneOnWithElsewhere: a fetch into the tensors breaks off in the middle
// of a chunk, and the next one puts that chunk beside them, with all its bytes.
func TestBrokenCopyIsGoneOnWithElsewhere(t *testing.T) {
	t.Parallel()
	for _, overwrite := range []bool{false, true} {
		s, into := big(), big()
		for i := range tensor.Slice[float64](into.Tensors["more"]) {
			tensor.Slice[float64](into.Tensors["more"])[i] = -3
		}
		target, fronts := faulty(t, 1, s)
		m, err := checkpoint.NewMirror(into, checkpoint.MirrorOptions{Overwrite: overwrite})
		if err != nil {
			t.Fatal(err)
		}
		m.SetDirect(true)
		setDieAfter := func(n int64) {
			fronts[0].mu.Lock()
			defer fronts[0].mu.Unlock()
			fronts[0].mu.dieAfter = n
		}
		setDieAfter(5*small + small/2)
		if _, err := target.Fetch(t.Context(), checkpoint.Any, urls(fronts), m); err == nil {
			t.Fatal("the copy has not broken off")
		}
		m.SetDirect(false)
		setDieAfter(-1)
		if _, err := target.Fetch(t.Context(), "v", urls(fronts), m); err != nil {
			t.Fatal(err)
		}
		if err := m.Install("v"); err != nil {
			t.Fatal(err)
		}
		ckpttest.Equal(t, into, s)
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := big()
	target, fronts := faulty(t, 1, s)
	fronts[0].mu.stallAt = small
	gone := errors.New("quorum fell")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := time.AfterFunc(50*time.Millisecond, func() { cancel(gone) })
	defer stop.Stop()
	if _, err := ckpttest.Fetch(ctx, target, "v", urls(fronts), ckpttest.Blank(s)); !errors.Is(err, gone) {
		t.Errorf("fetch: %v, want %v", err, gone)
	}
}

func TestTokenIsProved(t *testing.T) {
	t.Parallel()
	s := ckpttest.NewState(1)
	donor := ckpttest.Running(t, checkpoint.HTTPConfig{Token: []byte("one")})
	if err := donor.Serve("v", ckpttest.Saves(s)); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", "two"} {
		target := ckpttest.Running(t, checkpoint.HTTPConfig{Token: []byte(token)})
		_, err := ckpttest.Fetch(t.Context(), target, "v", []string{donor.Metadata()}, ckpttest.Blank(s))
		if !errors.Is(err, checkpoint.ErrNoDonor) || !strings.Contains(fmt.Sprint(err), "proof") {
			t.Errorf("fetch with token %q: %v, want it refused for its proof", token, err)
		}
		target.SetToken([]byte("one"))
		if _, err := ckpttest.Fetch(t.Context(), target, "v", []string{donor.Metadata()}, ckpttest.Blank(s)); err != nil {
			t.Errorf("fetch with the token: %v", err)
		}
	}
}

func TestOtherVersionIsNamed(t *testing.T) {
	t.Parallel()
	donor, target := ckpttest.Running(t, checkpoint.HTTPConfig{}), ckpttest.Running(t, checkpoint.HTTPConfig{})
	if err := donor.Serve("c/5/2", ckpttest.Saves(checkpoint.State{})); err != nil {
		t.Fatal(err)
	}
	_, err := ckpttest.Fetch(t.Context(), target, "c/6/2", []string{donor.Metadata()}, checkpoint.State{})
	if !strings.Contains(fmt.Sprint(err), `this donor serves "c/5/2", not "c/6/2"`) {
		t.Errorf("fetch: %v, want both versions named", err)
	}
}

// TestWholeFile reads a state with nothing but an HTTP client.
func TestWholeFile(t *testing.T) {
	t.Parallel()
	s := ckpttest.NewState(3)
	donor := ckpttest.Running(t, checkpoint.HTTPConfig{})
	if err := donor.Serve("v", ckpttest.Saves(s)); err != nil {
		t.Fatal(err)
	}
	body := get(t, donor.Metadata()+"/v1/state?version=v", http.StatusOK)
	into := ckpttest.Blank(s)
	if _, err := safetensors.Decode(bytes.NewReader(body), into); err != nil {
		t.Fatal(err)
	}
	ckpttest.Equal(t, into, s)
}

func TestRequestsRefused(t *testing.T) {
	t.Parallel()
	donor := ckpttest.Running(t, checkpoint.HTTPConfig{})
	if err := donor.Serve("v", ckpttest.Saves(ckpttest.NewState(3))); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		path   string
		status int
	}{
		{"/", http.StatusNotFound},
		{"/v1/manifest", http.StatusBadRequest},
		{"/v1/manifest?version=" + strings.Repeat("x", 600), http.StatusBadRequest},
		{"/v1/manifest?version=a%20b", http.StatusBadRequest},
		{"/v2/marks?version=v&first=0&n=0", http.StatusBadRequest},
		{"/v2/marks?version=v&first=0&n=65", http.StatusBadRequest},
		{"/v2/marks?version=v&first=-1&n=1", http.StatusBadRequest},
		{"/v2/marks?version=v&first=7&n=1", http.StatusRequestedRangeNotSatisfiable},
		{"/v2/marks?version=w&first=0&n=1", http.StatusConflict},
		{"/v1/state?version=*", http.StatusBadRequest},
		{"/v2/data?version=v", http.StatusBadRequest},
		{"/v2/data?version=v&from=-1&n=1", http.StatusBadRequest},
		{"/v2/data?version=v&from=0&n=0", http.StatusBadRequest},
		{"/v2/data?version=v&from=0&n=999999999999", http.StatusBadRequest},
		{"/v2/data?version=v&from=9223372036854775807&n=1", http.StatusBadRequest},
		{"/v2/data?version=v&from=0&n=9999999", http.StatusRequestedRangeNotSatisfiable},
	}
	for _, c := range cases {
		get(t, donor.Metadata()+c.path, c.status)
	}
}

func get(t *testing.T, url string, status int) []byte {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Errorf("GET %s: %d %q, %v, want %d", url, resp.StatusCode, body, err, status)
	}
	return body
}

// TestHostileDonors answer what no donor would.
func TestHostileDonors(t *testing.T) {
	t.Parallel()
	target := ckpttest.Running(t, checkpoint.HTTPConfig{Timeout: 300 * time.Millisecond})
	cases := map[string]http.HandlerFunc{
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
		"sends nothing": func(http.ResponseWriter, *http.Request) {},
		"sends a page":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"fails at length": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write(make([]byte, 1<<20))
		},
		"claims a huge header": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "SKM2\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00{")
		},
		"never ends": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "SKM2\x00\x00\x40\x00")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	}
	for name, handler := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(handler)
			defer s.Close()
			_, err := ckpttest.Fetch(t.Context(), target, "v", []string{s.URL}, ckpttest.Blank(ckpttest.NewState(1)))
			if !errors.Is(err, checkpoint.ErrNoDonor) || len(err.Error()) > 2000 {
				t.Errorf("fetch: %.3000v, want a short ErrNoDonor", err)
			}
		})
	}
	for _, base := range []string{"", "ftp://127.0.0.1:1", "http://", "http://u:p@127.0.0.1:1", "\x00"} {
		_, err := ckpttest.Fetch(t.Context(), target, "v", []string{base}, checkpoint.State{})
		if !errors.Is(err, checkpoint.ErrNoDonor) {
			t.Errorf("fetch from %q: %v, want ErrNoDonor", base, err)
		}
	}
}

// TestPauseWaitsForNoReader: the trainer goes on however slow a reader is. What
// the reader still wants is of a state that is no more.
func TestPauseWaitsForNoReader(t *testing.T) {
	t.Parallel()
	donor := ckpttest.Running(t, checkpoint.HTTPConfig{})
	s := checkpoint.State{Tensors: map[string]tensor.Tensor{"large": tensor.New(tensor.Uint8, 64<<20)}}
	if err := donor.Serve("v", ckpttest.Saves(s)); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(donor.Metadata() + "/v1/state?version=v")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	donor.Pause()
	s.Tensors["large"].Zero()
	if err := donor.Serve("w", ckpttest.Saves(s)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("the reader got all of a state that is no more")
	}
}

// TestReadersOfAnyProveAnOldToken: they are not in the quorum, and hear late of a
// new one. Readers of a version are.
func TestReadersOfAnyProveAnOldToken(t *testing.T) {
	t.Parallel()
	s := ckpttest.NewState(1)
	donor := ckpttest.Running(t, checkpoint.HTTPConfig{Token: []byte("0")})
	if err := donor.Serve("v", ckpttest.Saves(s)); err != nil {
		t.Fatal(err)
	}
	target := ckpttest.Running(t, checkpoint.HTTPConfig{Token: []byte("0")})
	from := []string{donor.Metadata()}
	for i := range 18 {
		_, err := ckpttest.Fetch(t.Context(), target, checkpoint.Any, from, ckpttest.Blank(s))
		if ok := i < 16; ok != (err == nil) {
			t.Errorf("after %d other tokens: %v, want it taken: %t", i, err, ok)
		}
		_, err = ckpttest.Fetch(t.Context(), target, "v", from, ckpttest.Blank(s))
		if ok := i == 0; ok != (err == nil) {
			t.Errorf("a version, after %d other tokens: %v, want it taken: %t", i, err, ok)
		}
		donor.SetToken([]byte(strconv.Itoa(i + 1)))
	}
}

// TestAnyIsPaced: readers that are not in the quorum leave the network to those
// that are. 6 MiB at 20 MiB/s take 300 ms; a version takes no more than it must.
func TestAnyIsPaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		checkpoint.PaceForTest(t, 20<<20, 6<<20)
		if took := time.Since(began); took < 250*time.Millisecond || took > 350*time.Millisecond {
			t.Errorf("6 MiB at 20 MiB/s took %v", took)
		}
	})
}

// elsewhere is a listener whose address is another one than the test's.
type elsewhere struct {
	net.Listener

	addr net.Addr
}

func (e elsewhere) Addr() net.Addr { return e.addr }
func (e elsewhere) Close() error   { return nil }

func TestConfigRefused(t *testing.T) {
	t.Parallel()
	reached := elsewhere{addr: &net.TCPAddr{IP: net.IPv4zero, Port: 7}}
	anyones := &checkpoint.TLS{Server: &tls.Config{MinVersion: tls.VersionTLS13}} // asks for no certificate
	cases := []struct {
		cfg  checkpoint.HTTPConfig
		want string
	}{
		{checkpoint.HTTPConfig{ChunkBytes: 1}, "ChunkBytes = 1"},
		{checkpoint.HTTPConfig{ChunkBytes: 1 << 30}, "ChunkBytes = 1073741824"},
		{checkpoint.HTTPConfig{Streams: 99}, "Streams = 99"},
		{checkpoint.HTTPConfig{Timeout: -1}, "Timeout = -1ns"},
		{checkpoint.HTTPConfig{Listen: "nonsense"}, `Listen = "nonsense"`},
		{checkpoint.HTTPConfig{Listen: "0.0.0.0:0", Open: true}, "Advertise is empty"},
		{
			checkpoint.HTTPConfig{Listen: "0.0.0.0:0", Advertise: "h", TLS: anyones},
			"nothing guards it: set Token, Guarded, or a TLS that asks for certificates, or Open",
		},
		{checkpoint.HTTPConfig{Listen: "0.0.0.0:0", Advertise: "h"}, "other hosts reach 0.0.0.0:0, and nothing guards it: set Token, Guarded, or a TLS that asks for certificates, or Open"},
		{checkpoint.HTTPConfig{Listener: reached, Advertise: "h"}, "other hosts reach 0.0.0.0:7, and nothing guards it"},
		{checkpoint.HTTPConfig{Listener: elsewhere{addr: &net.UnixAddr{Name: "x"}}, Guarded: true}, "Listener at x, want host:port"},
		{checkpoint.HTTPConfig{Advertise: "a b"}, `Advertise = "a b"`},
	}
	for _, c := range cases {
		if tr, err := checkpoint.NewHTTP(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want an error with %q", c.cfg, err, c.want)
			if tr != nil {
				_ = tr.Close()
			}
		}
	}
	for advertise, want := range map[string]string{"host": "http://host:", "host:7": "http://host:7", "::1": "http://[::1]:", "[::1]:9": "http://[::1]:9"} {
		tr, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{Advertise: advertise})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(tr.Metadata(), want) {
			t.Errorf("advertise %q gives %q, want %q…", advertise, tr.Metadata(), want)
		}
		_ = tr.Close()
	}
}
