package launch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/backoff"
	"github.com/skerry-ft/skerry/internal/logline"
	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/launch"
	"github.com/skerry-ft/skerry/launch/spare"
	"github.com/skerry-ft/skerry/store"
)

func TestMain(m *testing.M) {
	launch.Init()
	if len(os.Args) > 2 && os.Args[1] == "as" {
		if err := as(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// as is what this binary does when a test begins it again.
func as(part string, args []string) error {
	switch part {
	case "launcher": // of a configuration in JSON
		var c struct{ Command, Env []string }
		if err := json.Unmarshal([]byte(args[0]), &c); err != nil {
			return err
		}
		l, err := launch.New(launch.Config{Command: c.Command, Env: c.Env, Replicas: 2, Ranks: 2})
		if err != nil {
			return err
		}
		_, err = l.Run(context.Background())
		return err
	case "mute": // a rank that, as a spare's, hears of its place and does not take it
		if path := os.Getenv(spare.Variable); path != "" {
			conn, err := net.Dial("unix", path)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, conn)
			return err
		}
		return as("spare", nil)
	case "spare": // a rank that waits for its place, if it is a spare's
		if err := spare.Wait(context.Background()); errors.Is(err, spare.ErrNotNeeded) {
			fmt.Println("not needed")
			return nil
		} else if err != nil {
			return err
		}
		fmt.Printf("replica %s of %s rank %s start %s devices %s pid %d\n", os.Getenv("REPLICA_GROUP_ID"), os.Getenv("NUM_REPLICA_GROUPS"),
			os.Getenv("RANK"), os.Getenv("TORCHELASTIC_RESTART_COUNT"), os.Getenv("CUDA_VISIBLE_DEVICES"), os.Getpid())
		for { // trains
			if _, err := os.Stat("over"); err == nil {
				return nil
			}
			_ = backoff.Sleep(context.Background(), 20*time.Millisecond) // nothing ends it
		}
	case "store": // a rank that looks whether the store has keys of a start before
		return askStore(args[0])
	}
	return fmt.Errorf("no part %q", part)
}

// askStore adds to a key, wants the store to be new, and fails the first time.
func askStore(key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := store.Dial(ctx, os.Getenv("MASTER_ADDR")+":"+os.Getenv("MASTER_PORT"), store.ClientConfig{})
	if err != nil {
		return err
	}
	defer c.Close()
	n, err := c.Add(ctx, key, 1)
	if err != nil {
		return err
	}
	fmt.Println("attempt", os.Getenv("TORCHELASTIC_RESTART_COUNT"), "counts", n)
	if os.Getenv("TORCHELASTIC_RESTART_COUNT") == "0" {
		return fmt.Errorf("as it is meant to be")
	}
	return nil
}

// output is what the ranks of a launcher write. It is safe for concurrent use.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

// lines are the lines so far, sorted.
func (o *output) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(strings.Lines(o.all.String()))
}

// says waits until there are n lines with a text.
func (o *output) says(t *testing.T, text string, n int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d lines with %q", n, text), func() bool {
		return strings.Count(strings.Join(o.lines(), ""), text) >= n
	})
}

// job is a launcher of a test, and what came of it.
type job struct {
	*launch.Launcher

	out    *output
	log    *output // of the launcher
	dir    string  // where the ranks run
	stop   context.CancelFunc
	done   chan struct{}
	report launch.Report
	err    error
}

// start runs a script of sh in all ranks.
func start(t *testing.T, script string, change func(c *launch.Config)) *job {
	t.Helper()
	j := &job{out: &output{}, log: &output{}, dir: t.TempDir(), done: make(chan struct{})}
	c := launch.Config{
		Command: []string{"/bin/sh", "-c", script}, Dir: j.dir, Stdout: j.out, Stderr: j.out, Log: logline.JSON(j.log),
		Grace: testkit.Patience, KillGrace: testkit.Patience,
	}
	if change != nil {
		change(&c)
	}
	var err error
	if j.Launcher, err = launch.New(c); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	j.stop = stop
	go func() {
		defer close(j.done)
		j.report, j.err = j.Run(ctx)
	}()
	t.Cleanup(func() {
		j.Kill()
		<-j.done
		if t.Failed() {
			t.Logf("%+v\n%v\n%s", j.report, j.err, strings.Join(append(j.out.lines(), j.log.lines()...), ""))
		}
	})
	return j
}

// ends waits for the end of a job.
func (j *job) ends(t *testing.T) (launch.Report, error) {
	t.Helper()
	select {
	case <-j.done:
	case <-time.After(testkit.Patience):
		t.Fatalf("the job did not end within %v", testkit.Patience)
	}
	return j.report, j.err
}

// file makes a file for which the ranks wait.
func (j *job) file(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(j.dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// waitFor is the line of a script that waits for a file.
func waitFor(name string) string {
	return fmt.Sprintf("while [ ! -e %s ]; do sleep 0.02; done\n", name)
}
