package scale

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// launcher is told how many are wanted, and takes four at most.
type launcher struct{ wanted chan int }

func (l launcher) Scale(_ context.Context, n int) error {
	if n > 4 {
		return errors.New("replicas = 5, want 4 at most")
	}
	l.wanted <- n
	return nil
}

// run is one skerry run after the other: the environment is the process's.
func TestScale(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	ctx := t.Context()
	if err := Call(ctx, "vision", 3); !errors.Is(err, ErrNone) {
		t.Errorf("where nothing was ever run: %v", err)
	}
	job := "a/b " + strings.Repeat("long ", 50)
	l := launcher{make(chan int, 1)}
	s, err := Listen(job, l)
	if err != nil {
		t.Fatal(err)
	}
	if err := Call(ctx, job, 3); err != nil || <-l.wanted != 3 {
		t.Errorf("3 of %q: %v", job, err)
	}
	if err := Call(ctx, job, 5); err == nil || err.Error() != "replicas = 5, want 4 at most" {
		t.Errorf("what the launcher refuses: %v", err)
	}
	if err := Call(ctx, "another", 3); !errors.Is(err, ErrNone) {
		t.Errorf("of a job that is not there: %v", err)
	}
	if jobs := Jobs(ctx); len(jobs) != 1 || jobs[0] != job {
		t.Errorf("jobs %q", jobs)
	}
	if _, err := Listen(job, l); err == nil || !strings.Contains(err.Error(), "another skerry run") {
		t.Errorf("a second launcher of the job: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := Call(ctx, job, 3); !errors.Is(err, ErrNone) {
		t.Errorf("after its end: %v", err)
	}
	// A launcher that was killed leaves its socket: the next one takes its place.
	dir, err := folder(false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, socket(job)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = Listen(job, l); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// The lighthouse that is named is asked. The launcher of this host is, where that knows no such job;
// what neither knows is not there, and what the lighthouse refuses is tried nowhere else.
func TestLighthouseIsAskedFirst(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	house := lighthousetest.Start(t, nil)
	l := launcher{make(chan int, 1)}
	s, err := Listen("vision", l)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it has no more to say
	say := func(args ...string) (string, error) {
		cmd := Command()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(append(args, "--lighthouse="+house.Addr))
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	if text, err := say("vision", "3"); err != nil || text != "vision: 3 replicas wanted\n" || <-l.wanted != 3 {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := say("other", "3"); cli.StatusOf(err) != cli.StatusNotFound || !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), `no job is called "other"`) {
		t.Errorf("of a job that is nowhere: %v", err)
	}
	if _, err := say("a b", "3"); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("of a name that no job has: %v", err)
	}
}

// Where the lighthouse wants the operators' token, which the command does not have, the launcher of
// this host is told, if there is one.
func TestWithoutTheToken(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	house := lighthousetest.Start(t, func(cfg *lighthouse.Config) { cfg.Guard = guard.Options{Token: guardtest.New(t).Token} })
	say := func() error {
		cmd := Command()
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SetArgs([]string{"vision", "3", "--lighthouse=" + house.Addr})
		return cmd.ExecuteContext(t.Context())
	}
	if err := say(); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "--token-file") {
		t.Errorf("where no launcher is: %v", err)
	}
	l := launcher{make(chan int, 1)}
	s, err := Listen("vision", l)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it has no more to say
	if err := say(); err != nil || <-l.wanted != 3 {
		t.Errorf("where a launcher is: %v", err)
	}
}

// A folder that others can write is not used.
func TestFolderOfOthers(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	dir, err := folder(true)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // on purpose
		t.Fatal(err)
	}
	if _, err := Listen("a", launcher{}); err == nil || !strings.Contains(err.Error(), "this user's alone") {
		t.Errorf("%v", err)
	}
	if err := Call(t.Context(), "a", 1); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("%v", err)
	}
}
