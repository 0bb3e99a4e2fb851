package watchers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// page is a page's plain requests. Each has a connection of its own, as those of people have.
var page = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// MakePast gives jobs a past of so many events each: their rules are changed, to and fro.
func MakePast(ctx context.Context, addr string, jobs []string, events int) error {
	var all errgroup.Group
	for _, job := range jobs {
		all.Go(func() error {
			for i := range events {
				body, err := json.Marshal(map[string]any{"reason": "a past for the page", "stuck_after_ms": 600_000 + i%2})
				if err != nil {
					return err
				}
				if err := change(ctx, "http://"+addr+"/api/v1/jobs/"+job+"/rules", body); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

func change(ctx context.Context, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return ask(req)
}

// fetchPast asks for a job's events, as a page does that has just come.
func fetchPast(ctx context.Context, addr, job string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/api/v1/events?limit=1000&since=0&job="+job, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept-Encoding", "gzip")
	return ask(req)
}

func ask(req *http.Request) error {
	answer, err := page.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read to its end
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s answers %s: %s", req.Method, req.URL.Path, answer.Status, text)
	}
	return err
}
