package checkpoint

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/failpoint"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/proof"
)

const (
	// pollWait is how long a donor is asked to hold a request that comes
	// early. It answers by then in any case, which shows that it lives.
	pollWait = time.Second
	// dataWait is the same for a chunk, which another donor may have meanwhile.
	dataWait = 200 * time.Millisecond
	// markStreams is how many requests for marks a donor works on: it reads its
	// state at the speed of its memory.
	markStreams = 4
	// askOthersAfter is when the manifest is asked of the other donors, if
	// the first has neither sent it nor failed.
	askOthersAfter = 250 * time.Millisecond
	// donorStrikes is how many failures in a row, without a whole chunk in
	// between, make a fetch give a donor up.
	donorStrikes = 3
	// strikePause is the pause after a donor's failure, times the failures.
	strikePause = 20 * time.Millisecond
	// busyPause is the pause before a donor that has no place for another request
	// is asked again; it doubles up to busyMost.
	busyPause = 50 * time.Millisecond
	busyMost  = time.Second
)

// Reasons that end parts of a fetch.
var (
	errComplete = errors.New("checkpoint: fetch is complete")
	errSilent   = errors.New("checkpoint: donor fell silent")
)

// fetch is one Fetch under way.
type fetch struct {
	cfg     HTTPConfig
	client  *http.Client
	version Version
	token   []byte // nil: there is none
	proof   string // or ""
	into    *Mirror
	stop    context.CancelCauseFunc
	others  chan struct{} // closed when donors other than the first may ask
	release func()        // closes it, once
	torn    sync.Once

	mu struct {
		sync.Mutex

		first *manifest // the first that came
		plan  *plan     // made of it
	}
}

// donor is one source of a fetch.
type donor struct {
	base *url.URL
	stop context.CancelCauseFunc // ends all its streams
	meta map[string]string       // of its state

	carrying atomic.Pointer[carrying] // nil: none

	mu struct {
		sync.Mutex

		strikes int             // failures since the last success
		pauses  backoff.Backoff // while the donor is busy; spread, so that the streams do not come in step
	}
}

// Fetch implements Transport. It asks the first donor what the state is, and the
// others too if that takes long; who answers first says what every chunk must
// be. Chunks that the mirror does not hold are taken from all donors, from one
// queue. A chunk that breaks off goes on from another donor at the byte where it
// broke.
//
// Errors: *MismatchError; ErrNoDonor joined with each donor's error, among them
// ErrCorrupt; ctx's cause.
func (t *HTTP) Fetch(ctx context.Context, v Version, donors []string, into *Mirror) (map[string]string, error) {
	if err := v.check(); err != nil && v != Any {
		return nil, fmt.Errorf("fetch state: %w", err)
	}
	if len(donors) == 0 || len(donors) > MaxDonors {
		return nil, fmt.Errorf("fetch state %s: %d donors, want 1 to %d: %w", v, len(donors), MaxDonors, ErrNoDonor)
	}
	if !into.lock(ctx) {
		return nil, fmt.Errorf("fetch state %s: %w", v, context.Cause(ctx))
	}
	defer into.unlock()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	f := &fetch{
		cfg: t.cfg, version: v, into: into, stop: stop, others: make(chan struct{}),
	}
	f.release = sync.OnceFunc(func() { close(f.others) })
	if tokens := t.tokensFor(v); len(tokens) > 0 {
		f.token = tokens[0]
		f.proof = hex.EncodeToString(proof.Of(tokens[0], proofOfFetch, []byte(v)))
	}
	f.client = f.newClient()
	defer f.client.CloseIdleConnections()
	meta, err := f.run(ctx, donors)
	if err != nil {
		return nil, fmt.Errorf("fetch state %s: %w", v, err)
	}
	into.brought(v)
	return meta, nil
}

// newClient makes connections that belong to this fetch alone. No proxy, no
// redirect: bytes come from the donors that the caller named.
func (f *fetch) newClient() *http.Client {
	transport := &http.Transport{
		DialContext:            f.cfg.Dial,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    f.cfg.Streams + markStreams + 1,
		MaxResponseHeaderBytes: 64 << 10,
		ReadBufferSize:         64 << 10,
	}
	if f.cfg.TLS != nil {
		transport.DialTLSContext = guard.DialTLS(f.cfg.Dial, f.cfg.Timeout, f.cfg.TLS.Client)
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// run works with all donors until the state is there or none is left.
func (f *fetch) run(ctx context.Context, donors []string) (map[string]string, error) {
	timer := time.AfterFunc(askOthersAfter, f.release)
	defer timer.Stop()
	errs := make([]error, len(donors))
	var wg sync.WaitGroup
	for i, base := range donors {
		wg.Go(func() {
			errs[i] = f.donor(ctx, base, i == 0)
			f.release()
		})
	}
	wg.Wait()
	if p := f.plan(); p != nil {
		if meta, ok := p.result(); ok {
			return meta, nil
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, errors.Join(err, errors.Join(errs...))
	}
	return nil, errors.Join(append([]error{ErrNoDonor}, errs...)...)
}

func (f *fetch) plan() *plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.plan
}

// donor works with one donor until the fetch is complete (nil) or this donor
// is given up.
func (f *fetch) donor(ctx context.Context, base string, first bool) error {
	u, err := parseBase(base)
	if err == nil && f.cfg.TLS != nil && u.Scheme != "https" {
		err = fmt.Errorf("donor address %q, want https://: this replica heals over TLS only", safetensors.Clip(base))
	}
	if err != nil {
		return err
	}
	if !first {
		select {
		case <-f.others:
		case <-ctx.Done():
			return nil
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d := &donor{base: u, stop: stop}
	d.mu.pauses = backoff.Backoff{First: busyPause, Most: busyMost, Spread: true}
	err = f.workWith(ctx, d)
	if err == nil || errors.Is(context.Cause(ctx), errComplete) {
		return nil
	}
	f.cfg.Log.Warn().Err(err).Str("donor", base).Str("version", string(f.version)).Msg("donor given up")
	return fmt.Errorf("donor %s: %w", base, err)
}

func (f *fetch) workWith(ctx context.Context, d *donor) error {
	m, err := f.manifest(ctx, d)
	if err != nil {
		return err
	}
	p, err := f.adopt(m)
	if err != nil {
		return err
	}
	d.meta = m.Metadata()
	p.join(d)
	defer p.resign(d)
	errs := make([]error, f.cfg.Streams+markStreams)
	var wg, beside sync.WaitGroup
	connecting, hangUp := context.WithCancel(ctx)
	if f.cfg.Carrier != nil {
		beside.Go(func() {
			if err := f.connect(connecting, d); err != nil && connecting.Err() == nil {
				f.cfg.Log.Info().Err(err).Str("donor", d.base.String()).Msg("no carrier: the state comes by HTTP")
			}
		})
	}
	defer beside.Wait()
	defer hangUp()
	for i := range errs {
		wg.Go(func() {
			if i < markStreams {
				errs[i] = f.marks(ctx, d, p)
			} else {
				errs[i] = f.stream(ctx, d, p)
			}
			if errs[i] != nil {
				p.resign(d)
			}
		})
	}
	wg.Wait()
	if _, ok := p.result(); ok {
		f.stop(errComplete)
		return nil
	}
	return errors.Join(errs...)
}

// parseBase reads a donor's Metadata.
func parseBase(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("donor address: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil {
		return nil, fmt.Errorf("donor address %q, want http://host:port", safetensors.Clip(base))
	}
	return u, nil
}

// adopt makes a plan of m if it is the first, and else compares the two: what
// donors hold at one position differs in nothing (C1), and a donor that cuts it
// otherwise is left alone.
func (f *fetch) adopt(m *manifest) (*plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.mu.plan; p != nil {
		if !f.mu.first.sameCut(m) {
			return nil, safetensors.Corrupt("it lays the state out otherwise than the first donor")
		}
		return p, nil
	}
	chunks, err := f.into.begin(m)
	if err != nil {
		f.stop(err)
		return nil, err
	}
	f.mu.first, f.mu.plan = m, newPlan(f.into, chunks)
	f.release()
	return f.mu.plan, nil
}

// again says whether d may be asked once more after err: after a failure or two, when it
// holds requests that come early, and as long as ctx lasts if it is busy. It pauses
// before. Else it ends d's streams and returns what d is given up for.
func (d *donor) again(ctx context.Context, err error) error {
	ref, refused := errors.AsType[*refusal](err)
	if refused && ref.status == http.StatusTooEarly && ctx.Err() == nil {
		return nil // d held the request, so asking again does not spin
	}
	d.mu.Lock()
	var pause time.Duration
	if refused && ref.status == http.StatusServiceUnavailable { // it works on as many requests as it may: it has the state
		pause = d.mu.pauses.Next()
	} else {
		d.mu.strikes++
		pause = time.Duration(d.mu.strikes) * strikePause
	}
	over := d.mu.strikes >= donorStrikes
	d.mu.Unlock()
	if over || ctx.Err() != nil {
		d.stop(err)
		return err
	}
	if backoff.Sleep(ctx, pause) != nil {
		return err
	}
	return nil
}

// manifest asks d for the manifest until it can be read there.
func (f *fetch) manifest(ctx context.Context, d *donor) (*manifest, error) {
	for {
		var m *manifest
		err := f.get(ctx, d, pollWait, "/v1/manifest", url.Values{}, func(_ *http.Response, body *watched) error {
			var err error
			m, err = readManifest(body)
			return err
		})
		if err == nil {
			return m, nil
		}
		if err := d.again(ctx, err); err != nil {
			return nil, err
		}
	}
}

// marks asks d what the chunks must be, as long as that is its part.
func (f *fetch) marks(ctx context.Context, d *donor, p *plan) error {
	for {
		s, turn, ok := p.nextMarks(ctx, d)
		if !ok {
			return context.Cause(ctx)
		}
		err := f.askMarks(ctx, d, p, s, turn)
		if err == nil {
			d.clear()
			continue
		}
		p.giveMarksBack(s, turn)
		if err := d.again(ctx, err); err != nil {
			return err
		}
	}
}

func (f *fetch) askMarks(ctx context.Context, d *donor, p *plan, s span, turn int) error {
	var marks []mark
	n := s.to - s.from
	q := url.Values{"first": {strconv.FormatInt(s.from, 10)}, "n": {strconv.FormatInt(n, 10)}}
	err := f.get(ctx, d, pollWait, "/v2/marks", q, func(_ *http.Response, body *watched) error {
		var err error
		marks, err = readMarks(body, int(n))
		return err
	})
	if err != nil {
		return fmt.Errorf("marks of chunks [%d,%d): %w", s.from, s.to, err)
	}
	for i, m := range marks {
		if err := p.tell(ctx, int(s.from)+i, turn, m); err != nil {
			return err
		}
	}
	f.into.progress(0)
	return nil
}

// stream takes chunks and fetches them from d, until none is left or d is
// given up.
func (f *fetch) stream(ctx context.Context, d *donor, p *plan) error {
	for {
		c := p.take(ctx, d)
		if c == nil {
			return context.Cause(ctx)
		}
		err := f.chunk(ctx, d, p, c)
		p.settle(c)
		if err == nil {
			d.clear()
			continue
		}
		if err := d.again(ctx, err); err != nil {
			return err
		}
	}
}

// clear forgets failures, after a success.
func (d *donor) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.strikes = 0
	d.mu.pauses.Reset()
}

// chunk fetches what is missing of c from d and checks it.
func (f *fetch) chunk(ctx context.Context, d *donor, p *plan, c *chunk) error {
	if c.got == c.to-c.from {
		c.reset() // it was never finished
	}
	whole := c.got == 0
	if whole {
		f.into.overwrite(c)
	}
	n := c.to - c.from - c.got
	var said mark // by the donor, of what it sent
	q := url.Values{"from": {strconv.FormatInt(c.from+c.got, 10)}, "n": {strconv.FormatInt(n, 10)}}
	by := d.carrying.Load()
	if by != nil {
		q.Set("carrier", by.id)
	}
	err := f.get(ctx, d, dataWait, "/v2/data", q, func(resp *http.Response, body *watched) error {
		if by == nil && resp.ContentLength != n {
			return safetensors.Corrupt("donor announced %d bytes, want %d", resp.ContentLength, n)
		}
		var err error
		if said, err = parseMark(resp.Header.Get(headerMark)); err != nil {
			return err
		}
		before := c.got
		defer func() { f.into.received.Add(c.got - before) }()
		if by != nil {
			return by.receive(ctx, c, resp, body, f.cfg.Timeout)
		}
		for _, part := range c.rest() {
			if err := c.fill(body, part); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		if by != nil && ctx.Err() == nil && d.failedBy(by, err) {
			return nil // which is no fault of d: the chunk is asked for again, by HTTP
		}
		return fmt.Errorf("chunk at %d: %w", c.from, err)
	}
	got, want := c.sum.mark(), p.wants(d, c, said)
	// The first donor's bytes are what they were when it read them: those of a
	// tensor that changes beside the step have another mark each time.
	if got != want && !whole {
		c.reset() // it is of two donors, of which either may be wrong: all of it comes from one now
		return nil
	}
	if got != want {
		if got != said || !p.amend(d, c, f.version == Any) {
			c.reset()
			return safetensors.Corrupt("chunk at %d has mark %v, want %v", c.from, got, want)
		}
		f.changed(c)
	}
	if err := c.finish(); err != nil {
		return err
	}
	f.into.progress(n)
	failpoint.At(ctx, failpoint.ReceiveDuring)
	return nil
}

// namesShown bounds the tensors that changed names.
const namesShown = 8

// changed says, once, that the donor's tensors changed while they were served: what
// comes is of no one moment, and the donor's trainer must hear of it.
func (f *fetch) changed(c *chunk) {
	if f.version == Any {
		return // chunks are of different states there
	}
	f.torn.Do(func() {
		f.mu.Lock()
		l := f.mu.first.Layout
		f.mu.Unlock()
		var names []string
		for _, e := range l.Entries {
			if e.From < c.to && e.To > c.from && len(names) < namesShown {
				names = append(names, safetensors.Clip(e.Name))
			}
		}
		f.cfg.Log.Warn().Str("version", string(f.version)).Strs("among", names).
			Msg("donor's tensors changed while they were read: its trainer writes to them in its forward pass")
	})
}

// get sends one request and hands the body to read. The donor must answer
// within hold, which is how long it may wait for the version, plus the timeout,
// and then never pause longer than the timeout.
func (f *fetch) get(
	ctx context.Context, d *donor, hold time.Duration, path string, q url.Values,
	read func(resp *http.Response, body *watched) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(hold+f.cfg.Timeout, func() { cancel(errSilent) })
	defer watch.Stop()
	q.Set("version", string(f.version))
	u := d.base.JoinPath(path)
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	req.Header.Set(headerWait, strconv.FormatInt(hold.Milliseconds(), 10))
	if f.proof != "" {
		req.Header.Set(headerProof, f.proof)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return cause(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // the error, if any, came with the last read
	if resp.StatusCode != http.StatusOK {
		return &refusal{status: resp.StatusCode, text: readText(resp.Body)}
	}
	return cause(ctx, read(resp, &watched{r: resp.Body, timer: watch, timeout: f.cfg.Timeout}))
}

// cause prefers why ctx ended over what the network made of it.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

// watched winds the timer up with every read that brings bytes.
type watched struct {
	r       io.Reader
	timer   *time.Timer
	timeout time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.timer.Reset(w.timeout)
	}
	return n, err
}
