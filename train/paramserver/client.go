package paramserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/store"
)

// maxAnswerBytes bounds what a server may answer.
const maxAnswerBytes = 4 << 10

// ClientConfig says which server a client has a session with.
type ClientConfig struct {
	// Address is the server's "host:port", or URL; required.
	Address string
	// Backend is unconfigured, and of the kind of the server's; the Client owns it from the
	// call of Dial on. Required.
	Backend pg.Backend
	// Timeout bounds an operation that has no deadline; 0 means pg.DefaultTimeout.
	Timeout time.Duration
	// Token and TLS are the server's.
	Token []byte
	TLS   *store.TLS
}

// Validate returns all problems, joined.
func (c ClientConfig) Validate() error {
	var l problems.List
	_, _, err := net.SplitHostPort(netaddr.HostPort(c.Address))
	l.Want(err == nil, "Address", c.Address, "host:port")
	l.Want(c.Backend != nil, "Backend", "", "a backend")
	problems.NotNegative(&l, "Timeout", c.Timeout)
	l.Short("Token", len(c.Token), store.MaxTokenBytes)
	return l.Err()
}

// Client is a session's other end: rank 1 of a group of two, of which the server is
// rank 0. It is as safe for concurrent use as its Group. Close ends the session.
type Client struct {
	*pg.Group
	ID string // of the session
}

// Dial opens a session. It blocks until the group is there, or ctx ends. After an error the
// backend is closed.
func Dial(ctx context.Context, c ClientConfig) (*Client, error) {
	if err := c.Validate(); err != nil {
		if c.Backend != nil {
			err = errors.Join(err, c.Backend.Close())
		}
		return nil, fmt.Errorf("paramserver: %w", err)
	}
	g := pg.NewGroup(c.Backend)
	a, err := c.ask(ctx)
	if err == nil {
		config := groupOf(a.ID, clientRank, c.Token, c.TLS, c.Timeout)
		config.StoreAddress = a.Address
		err = g.Configure(ctx, config)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a session at %s: %w", c.Address, err), g.Close())
	}
	return &Client{Group: g, ID: a.ID}, nil
}

// ask requests a session.
func (c *ClientConfig) ask(ctx context.Context) (answer, error) {
	scheme, at := "http://", netaddr.HostPort(c.Address)
	transport := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeaderBytes}
	defer transport.CloseIdleConnections()
	if c.TLS != nil {
		scheme = "https://"
		transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			d := tls.Dialer{Config: c.TLS.Client(address)}
			return d.DialContext(ctx, network, address)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+at+newSessionPath, nil)
	if err != nil {
		return answer{}, err
	}
	if p := tokenOf(c.Token).Prove(proofScope, nil); p != "" {
		r.Header.Set(proofHeader, p)
	}
	client := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			err = cmp.Or(context.Cause(ctx), err)
		}
		return answer{}, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err != nil {
		return answer{}, err
	}
	return readAnswer(response.StatusCode, text)
}

// readAnswer reads what a server has answered.
func readAnswer(status int, text []byte) (a answer, err error) {
	if len(text) > maxAnswerBytes {
		return answer{}, fmt.Errorf("an answer of more than %d bytes", maxAnswerBytes)
	}
	said := bytes.TrimSpace(text[:min(len(text), 200)])
	switch status {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		return answer{}, fmt.Errorf("%w: %q", ErrBusy, said)
	case http.StatusUnauthorized:
		return answer{}, fmt.Errorf("%w: %q", ErrDenied, said)
	default:
		return answer{}, fmt.Errorf("answer %d: %q", status, said)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return answer{}, fmt.Errorf("an answer that is no session: %w", err)
	}
	at, id, ok := strings.Cut(a.Address, "/"+sessionPrefix)
	if _, _, err := net.SplitHostPort(at); !ok || err != nil || id != a.ID || !goodID(id) {
		return answer{}, fmt.Errorf("an answer with session %q at %q, want host:port/%sID", a.ID, a.Address, sessionPrefix)
	}
	return a, nil
}

// goodID tells whether an id is one that a server draws.
func goodID(id string) bool {
	outside := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' }
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, outside)
}
