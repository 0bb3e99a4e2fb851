package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/internal/guard"
)

const (
	// maxReason bounds what is read of an answer that is an error.
	maxReason = 4 << 10
	// maxBodyBytes bounds what a lighthouse may answer.
	maxBodyBytes = 64 << 20
	// tlsTimeout bounds a TLS connection, handshake included.
	tlsTimeout = 5 * time.Second
)

// answerError is an answer that says that there is none.
type answerError struct {
	addr   string
	status int
	line   string // as HTTP says it: 404 Not Found
	code   string // of an API's error; empty: it is none
	why    string

	retryAfter time.Duration // that the server asks for; 0: it says nothing
}

// Error implements error.
func (e *answerError) Error() string {
	switch {
	case e.code != "":
		return fmt.Sprintf("lighthouse %s: %s", e.addr, e.why)
	case e.why == "":
		return fmt.Sprintf("lighthouse %s answers %s", e.addr, e.line)
	}
	return fmt.Sprintf("lighthouse %s answers %s: %s", e.addr, e.line, e.why)
}

// noPage tells that a server has no such page at all: its build is an older one.
func (e *answerError) noPage() bool { return e.status == http.StatusNotFound && e.code == "" }

// fetch reads a page of the lighthouse at addr.
func (l *Flags) fetch(ctx context.Context, g *guard.Guard, addr, path string, query url.Values) ([]byte, error) {
	resp, err := l.open(ctx, g, addr, path, query)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBodyBytes))
	if err != nil {
		return nil, unreachable(addr, l.timeout, networkCause(err))
	}
	return body, nil
}

// open asks for a page, and returns the answer if it is one; the caller closes its body.
// The answer's beginning comes within the timeout, and its end when ctx ends.
func (l *Flags) open(ctx context.Context, g *guard.Guard, addr, path string, query url.Values) (*http.Response, error) {
	transport := &http.Transport{ // it carries one request
		DisableKeepAlives: true, ResponseHeaderTimeout: l.timeout, DialContext: (&net.Dialer{Timeout: l.timeout}).DialContext,
	}
	scheme := "http"
	if g.TLS != nil {
		scheme = "https"
		transport.DialTLSContext = g.TLS.DialOver(new(net.Dialer).DialContext, guard.Party{Role: guard.Lighthouse}, tlsTimeout)
	}
	base := addr
	if !strings.Contains(base, "://") {
		base = scheme + "://" + base
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, badAddress(addr)
	}
	u = u.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, badAddress(addr)
	}
	if query.Has("follow") {
		req.Header.Set("Accept", "application/x-ndjson")
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, unreachable(addr, l.timeout, networkCause(err))
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, failure(addr, resp)
}

// failure is what an answer says that is an error.
func failure(addr string, resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxReason)) // what came of it is said
	e := &answerError{addr: addr, status: resp.StatusCode, line: resp.Status, retryAfter: retryAfter(resp.Header, time.Now())}
	var told struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(text, &told) == nil && told.Error.Code != "" {
		e.code, e.why = told.Error.Code, told.Error.Message
	} else {
		e.why, _, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
	}
	switch {
	case strings.Contains(e.why, "speaks TLS"):
		return cli.Usagef("lighthouse %s: %s", addr, speaksTLS)
	case e.code == "no leader":
		return ErrNoLeader
	case e.code != "" && e.status == http.StatusNotFound:
		return cli.WithStatus(cli.StatusNotFound, errors.New(e.why))
	}
	return e
}

// networkCause takes off what repeats the address and the URL.
func networkCause(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	return err
}
