package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ErrNone is returned by Call where no launcher of the job is on this host.
var ErrNone = errors.New("no skerry run of this user runs it on this host")

// Call tells the launcher of a job on this host how many replicas are wanted. It returns when
// that has begun. Errors: ErrNone; why the launcher refuses; the end of ctx.
func Call(ctx context.Context, job string, replicas int) error {
	dir, err := folder(false)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNone
	} else if err != nil {
		return err
	}
	body, err := json.Marshal(wish{replicas})
	if err != nil {
		return err
	}
	said, status, err := call(ctx, filepath.Join(dir, socket(job)), http.MethodPut, body)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return ErrNone
	case err != nil:
		return err
	case status != http.StatusNoContent:
		return errors.New(strings.TrimSpace(string(said)))
	}
	return nil
}

// Jobs are those that have a launcher on this host that can be told, sorted.
func Jobs(ctx context.Context) (jobs []string) {
	dir, err := folder(false)
	if err != nil {
		return nil
	}
	entries, _ := os.ReadDir(dir) // none of what cannot be read
	for _, e := range entries {
		var is struct{ Job string }
		said, status, err := call(ctx, filepath.Join(dir, e.Name()), http.MethodGet, nil)
		if err == nil && status == http.StatusOK && json.Unmarshal(said, &is) == nil {
			jobs = append(jobs, is.Job)
		}
	}
	slices.Sort(jobs)
	return jobs
}

func call(ctx context.Context, path, method string, body []byte) (said []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://launcher/", bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, 0, fmt.Errorf("call the launcher at %s: %w", path, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	said, err = io.ReadAll(io.LimitReader(resp.Body, maxBytes))
	return said, resp.StatusCode, err
}
