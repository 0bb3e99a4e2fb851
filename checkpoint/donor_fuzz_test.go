package checkpoint_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/ckpttest"
)

// hostileDonor answers each request with bytes that a fuzzer chose.
type hostileDonor struct {
	ln net.Listener
	wg sync.WaitGroup

	mu struct {
		sync.Mutex

		answer func(path string) []byte // a whole response
	}
}

func newHostileDonor(f *testing.F) *hostileDonor {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	d := &hostileDonor{ln: ln}
	d.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			d.wg.Go(func() { d.serve(c) })
		}
	})
	f.Cleanup(func() {
		ln.Close()
		d.wg.Wait()
	})
	return d
}

func (d *hostileDonor) serve(c net.Conn) {
	defer c.Close()
	if c.SetDeadline(time.Now().Add(5*time.Second)) != nil {
		return
	}
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	d.mu.Lock()
	b := d.mu.answer(r.URL.Path)
	d.mu.Unlock()
	_, _ = c.Write(b) // a target that went away
}

// answered is a response with a body and, if it has one, a mark.
func answered(status int, mark string, body []byte) []byte {
	head := fmt.Sprintf("HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %d\r\nSkerry-Mark: %s\r\n\r\n", status, len(body), mark)
	return append([]byte(head), body...)
}

// FuzzFetch heals from a donor that answers anything: a response as it is, a body,
// or behind a right manifest the marks and the data. The fetch ends, in one clear
// error if it fails, whatever the donor says of sizes.
func FuzzFetch(f *testing.F) {
	s := tensors(map[string][]float32{"w": {1, 2, 3, 4}})
	manifest := manifestOf(f, s)
	for _, seed := range [][]byte{
		nil, []byte("\x00HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"),
		append([]byte{1}, manifest...), append([]byte{1}, "SKM2\x00\x00\x40\x00\x01\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\x7f{"...),
		append([]byte{2}, make([]byte, 12)...), append([]byte{3}, make([]byte, 16)...), {4, 1, 2},
		[]byte("\x00HTTP/1.1 302 X\r\nLocation: http://127.0.0.1:1/\r\n\r\n"), []byte("\x05too early"),
	} {
		f.Add(seed)
	}
	d := newHostileDonor(f)
	target, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{Timeout: 200 * time.Millisecond})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { target.Close() })
	f.Fuzz(func(t *testing.T, b []byte) {
		mode := byte(0)
		if len(b) > 0 {
			mode, b = b[0]%6, b[1:]
		}
		b = slices.Clone(b)
		d.mu.Lock()
		d.mu.answer = func(path string) []byte {
			switch {
			case mode == 0:
				return b
			case mode == 5:
				return answered(http.StatusTooManyRequests, "", b)
			case mode >= 2 && strings.HasSuffix(path, "/manifest"):
				return answered(http.StatusOK, "", manifest)
			case mode == 3 && strings.HasSuffix(path, "/marks"):
				return answered(http.StatusOK, "", make([]byte, 12))
			}
			return answered(http.StatusOK, fmt.Sprintf("%.16x", b), b)
		}
		d.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := ckpttest.Fetch(ctx, target, "v", []string{"http://" + d.ln.Addr().String()}, ckpttest.Blank(s))
		if ctx.Err() != nil && mode != 0 { // such may say again and again that it is busy
			t.Fatalf("the fetch took until its deadline: %v", err)
		}
		if err != nil && len(err.Error()) > 4<<10 {
			t.Fatalf("an error of %d bytes: %.300v…", len(err.Error()), err)
		}
	})
}

// manifestOf is what a donor of s says that it holds.
func manifestOf(f *testing.F, s checkpoint.State) []byte {
	donor, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{})
	if err != nil {
		f.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- donor.Run(context.Background()) }()
	if err := donor.Serve("v", ckpttest.Saves(s)); err != nil {
		f.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(donor.Metadata() + "/v1/manifest?version=v")
	if err != nil {
		f.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		f.Fatalf("manifest: %d, %v", resp.StatusCode, err)
	}
	if err := donor.Close(); err != nil {
		f.Error(err)
	}
	if err := <-ran; err != nil {
		f.Error(err)
	}
	return body
}
