package s3_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/durable"
	"github.com/skerry-ft/skerry/checkpoint/durable/durabletest"
	"github.com/skerry-ft/skerry/checkpoint/durable/s3"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/tensor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// partBytes is the least that S3 allows.
const partBytes = 5 << 20

func open(t *testing.T, f *fake) *s3.Store {
	t.Helper()
	s, err := s3.New(s3.Config{Client: f.client(), Bucket: "ckpt", Prefix: "run7", PartBytes: partBytes, Parallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	fakes := make(map[*testing.T]*fake)
	durabletest.Run(t, func(t *testing.T) durable.Store {
		mu.Lock()
		defer mu.Unlock()
		if fakes[t] == nil {
			fakes[t] = newFake(t)
		}
		return open(t, fakes[t])
	})
}

// text is bytes that differ everywhere.
func text(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8) ^ byte(i>>16)
	}
	return b
}

// A large object travels in parts, each of which is sent again if it has to be.
func TestParts(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	var failures atomic.Int64
	f.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("partNumber") == "2" && failures.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	s := open(t, f)
	for _, size := range []int{partBytes, partBytes + 1, 3 * partBytes, 3*partBytes + 7} {
		want := text(size)
		if err := s.Put(t.Context(), "big", int64(size), bytes.NewReader(want)); err != nil {
			t.Fatal(err)
		}
		if got := durabletest.Text(t, s, "big"); got != string(want) {
			t.Errorf("%d bytes came back as %d, or others", size, len(got))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if failures.Load() < 2 || f.mu.count != 3 || len(f.mu.uploads) != 0 {
		t.Errorf("%d tries of part 2, %d uploads, %d of them open; want more than 1, 3 and 0", failures.Load(), f.mu.count, len(f.mu.uploads))
	}
}

// An upload that fails, by the service, its reader, its size or its ctx, leaves no
// object, and no parts to pay for.
func TestUploadFails(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, c := range map[string]struct {
		r     io.Reader
		fault func(w http.ResponseWriter, r *http.Request) bool
		want  error
	}{
		"reader": {r: io.MultiReader(bytes.NewReader(text(partBytes+5)), failing{bad}), want: bad},
		"short":  {r: bytes.NewReader(text(3*partBytes - 1)), want: io.ErrUnexpectedEOF},
		"long":   {r: bytes.NewReader(text(3*partBytes + 1)), want: io.ErrShortWrite},
		"ctx": {r: bytes.NewReader(text(3 * partBytes)), want: context.Canceled, fault: func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("partNumber") == "3" {
				cancel()
			}
			return false
		}},
		"service": {r: bytes.NewReader(text(3 * partBytes)), fault: func(w http.ResponseWriter, r *http.Request) bool {
			refused := r.URL.Query().Get("partNumber") == "2"
			if refused {
				w.WriteHeader(http.StatusForbidden)
			}
			return refused
		}},
	} {
		f := newFake(t)
		f.fault = c.fault
		cctx := t.Context()
		if name == "ctx" {
			cctx = ctx
		}
		err := open(t, f).Put(cctx, "big", 3*partBytes, c.r)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		f.mu.Lock()
		if f.mu.count != 1 || len(f.mu.uploads) != 0 || len(f.mu.objects) != 0 {
			t.Errorf("%s: %d uploads, %d open, %d objects, want 1, 0, 0", name, f.mu.count, len(f.mu.uploads), len(f.mu.objects))
		}
		f.mu.Unlock()
	}
}

// failing is a reader that fails.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A connection that breaks in the middle of an object is taken up where it broke; one of
// an object that was replaced meanwhile is not, nor one that breaks for ever.
func TestBrokenGet(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	s := open(t, f)
	want := text(1 << 20)
	if err := s.Put(t.Context(), "big", int64(len(want)), bytes.NewReader(want)); err != nil {
		t.Fatal(err)
	}
	gets := 0
	f.cutBy(func(b []byte) int {
		if gets++; gets <= 6 {
			return len(b) / 3
		}
		return -1
	})
	if got := durabletest.Text(t, s, "big"); got != string(want) || gets != 7 {
		t.Errorf("%d bytes after %d requests, want all, and 7", len(got), gets)
	}
	f.cutBy(func(b []byte) int { // replaced after the first part of it
		f.mu.objects["run7/big"] = text(1<<20 - 1)
		return len(b) / 2
	})
	if err := read(t, s); err == nil || !strings.Contains(err.Error(), "PreconditionFailed") {
		t.Errorf("replaced: %v, want PreconditionFailed", err)
	}
	f.cutBy(func([]byte) int { return 0 })
	if err := read(t, s); err == nil || errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("cut for ever: %v, want an error that is no damage", err)
	}
}

// An object whose checksum is another one is read once more, before it is called damaged: what
// was right the second time is no damage.
func TestWrongChecksum(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	s := open(t, f)
	want := text(1 << 20)
	if err := s.Put(t.Context(), "big", int64(len(want)), bytes.NewReader(want)); err != nil {
		t.Fatal(err)
	}
	var gets, wrong int
	flip := false
	f.sumBy(func(b []byte) []byte {
		sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(b))
		if gets++; gets <= wrong && flip {
			b[len(b)/2] ^= 1 // on its way
		} else if gets <= wrong {
			sum[0] ^= 1
		}
		return sum
	})
	if got := durabletest.Text(t, s, "big"); got != string(want) || gets != 1 {
		t.Errorf("%d bytes after %d requests, want all, and 1", len(got), gets)
	}
	gets, wrong = 0, 1
	if got := durabletest.Text(t, s, "big"); got != string(want) || gets != 2 {
		t.Errorf("a wrong checksum once: %d bytes after %d requests, want all, and 2", len(got), gets)
	}
	gets, flip = 0, true
	if err := read(t, s); err == nil || errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), "checksum did not match") || gets != 2 {
		t.Errorf("a flipped bit once: %v after %d requests, want an error that is no damage, and 2", err, gets)
	}
	gets, wrong, flip = 0, 2, false
	if err := read(t, s); !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), "checksum did not match") || gets != 2 {
		t.Errorf("a wrong checksum twice: %v after %d requests, want ErrCorrupt with the cause, and 2", err, gets)
	}
}

// read reads "big".
func read(t *testing.T, s *s3.Store) error {
	r, err := s.Get(t.Context(), "big")
	if err != nil {
		return err
	}
	defer r.Close() // it was read
	_, err = io.Copy(io.Discard, r)
	return err
}

// A checkpoint goes to a bucket and comes back.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	big, small := make([]byte, 2*partBytes+9), []float32{1, 2, 3}
	copy(big, text(len(big)))
	state := func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"big": tensor.Of(big), "small": tensor.Of(small)}}
	}
	open := func() *durable.Checkpointer {
		c, err := durable.New(durable.Config{Store: open(t, f), Every: 2, Keep: 1, MaxFileBytes: 1 << 20})
		if err == nil {
			err = c.Register("model", state, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := open()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	for step := int64(1); step <= 5; step++ {
		small[0] = float32(step)
		if err := errors.Join(c.AfterStep(ctx, at(step)), c.Flush(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	clear(big)
	found, err := open().Restore(t.Context())
	if err != nil || found.Position.Step != 4 || small[0] != 4 || !bytes.Equal(big, text(len(big))) {
		t.Errorf("found %v, %v, small %v", found, err, small)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.mu.objects) != 3 {
		t.Errorf("%d objects left, want those of one checkpoint", len(f.mu.objects))
	}
}

// A checkpoint of which the service has lost bytes, as its checksums say, is passed over.
func TestFindPassesOverWrongChecksum(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c, err := durable.New(durable.Config{Store: open(t, f), Every: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := []float32{1, 2, 3}
	if err := c.Register("model", func() checkpoint.State {
		return checkpoint.State{Tensors: map[string]tensor.Tensor{"w": tensor.Of(w)}}
	}, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for step := int64(1); step <= 2; step++ {
		w[0] = float32(step)
		if err := errors.Join(c.AfterStep(t.Context(), at(step)), c.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	newest := f.body("0000000000000002-", ".safetensors")
	f.sumBy(func(b []byte) []byte {
		sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(b))
		if bytes.Equal(b, newest) {
			sum[0] ^= 1
		}
		return sum
	})
	found, err := c.Find(t.Context())
	if err != nil || found.Position.Step != 1 || len(found.Rejected) != 1 || !errors.Is(found.Rejected[0].Err, checkpoint.ErrCorrupt) {
		t.Errorf("found %v, %v, want step 1, and step 2 rejected as damaged", found, err)
	}
}

// at is the progress of a rank at a step.
type at int64

func (a at) Position() quorum.Position { return quorum.Position{Step: int64(a), QuorumID: 1} }
func (a at) BatchesCommitted() int64   { return int64(a) }
func (at) ParticipantRank() int        { return 0 }
func (at) NumParticipants() int        { return 1 }
func (at) ReplicaID() string           { return "a:1" }

func TestConfigNamesAllProblems(t *testing.T) {
	t.Parallel()
	_, err := s3.New(s3.Config{Prefix: "a//b", PartBytes: 1, Parallel: 65})
	for _, want := range []string{"Client = <nil>", `Bucket = ""`, "Prefix: name", "PartBytes = 1, want 5242880", "Parallel = 65, want 1 to 64"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	s := open(t, newFake(t))
	if err := s.Put(t.Context(), "x", partBytes*10_000+1, nil); err == nil || !strings.Contains(err.Error(), "PartBytes is") {
		t.Errorf("too large: %v", err)
	}
}
