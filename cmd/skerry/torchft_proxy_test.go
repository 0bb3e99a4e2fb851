package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/guard/guardtest"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// startServing runs a command that prints its address, and returns that.
func startServing(ctx context.Context, t *testing.T, in io.Reader, args ...string) (addr string, ended <-chan error) {
	t.Helper()
	out, to := io.Pipe()
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(to)
	root.SetErr(io.Discard)
	end := make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		to.CloseWithError(io.EOF) // it says no more
		end <- err
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %v", args, <-end)
	}
	return strings.TrimPrefix(strings.TrimSpace(line), "http://"), end
}

// torchft's managers, which speak no TLS, join through the proxy at a lighthouse
// that takes nothing else.
func TestTorchftProxyOverTLS(t *testing.T) {
	t.Parallel()
	creds := guardtest.New(t)
	o := creds.Options(t, guard.Lighthouse, "server")
	l := lighthousetest.Start(t, func(c *lighthouse.Config) { c.Guard = o })
	o = creds.Options(t, guard.Replica, "replica")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	run, stop := context.WithCancel(ctx)
	addr, ended := startServing(run, t, nil, "torchft-proxy", "--bind", "127.0.0.1:0", "--lighthouse", "127.0.0.1:1,https://"+l.Addr,
		"--tls-ca", o.TLSCA, "--tls-cert", o.TLSCert, "--tls-key", o.TLSKey, "--token-file", o.TokenFile)
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := torchftpb.NewLighthouseServiceClient(conn).Quorum(ctx, &torchftpb.LighthouseQuorumRequest{
		Requester: &torchftpb.QuorumMember{ReplicaId: "a:1", Address: "http://a", StoreAddress: "a:1", WorldSize: 1}})
	if err != nil || len(got.GetQuorum().GetParticipants()) != 1 {
		t.Errorf("quorum %v, %v", got, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// Who reaches the proxy is taken for it, so it listens on loopback unless told.
func TestTorchftProxyKeepsToLoopback(t *testing.T) {
	t.Parallel()
	args := []string{"torchft-proxy", "--bind", "0.0.0.0:0", "--lighthouse", "127.0.0.1:1"}
	if status, _, stderr := skerry(args...); status == 0 || !strings.Contains(stderr, "--open") {
		t.Errorf("--bind 0.0.0.0: %d %q", status, stderr)
	}
	if status, _, stderr := skerry("torchft-proxy", "--bind", "127.0.0.1:0"); status == 0 || !strings.Contains(stderr, "--lighthouse is missing") {
		t.Errorf("no servers: %d %q", status, stderr)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, ended := startServing(ctx, t, nil, append(args, "--open")...)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("--open: %v", err)
	}
}

// What serves a trainer ends with the trainer's end of standard input.
func TestEndsWithStandardInput(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"torchft-manager", "--replica-id", "r:1", "--store", "s:1", "--lighthouse", "127.0.0.1:1", "--end-with-stdin", "--die-with-parent"},
		{"torchft-proxy", "--bind", "127.0.0.1:0", "--lighthouse", "127.0.0.1:1", "--end-with-stdin", "--die-with-parent"},
	} {
		in, trainer := io.Pipe()
		_, ended := startServing(t.Context(), t, in, args...)
		select {
		case err := <-ended:
			t.Fatalf("%s ended by itself: %v", args[0], err)
		case <-time.After(100 * time.Millisecond):
		}
		_ = trainer.Close() // it never fails
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s: %v", args[0], err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s outlives its standard input", args[0])
		}
	}
}

func TestPassedListener(t *testing.T) {
	t.Parallel()
	me := strconv.Itoa(os.Getpid())
	for _, env := range [][2]string{{"", ""}, {"1", "1"}, {"", "1"}} {
		if l, err := passedListener(env[0], env[1]); l != nil || err != nil {
			t.Errorf("for another process, %v: %v, %v", env, l, err)
		}
	}
	if _, err := passedListener(me, "2"); err == nil || !strings.Contains(err.Error(), `LISTEN_FDS = "2"`) {
		t.Errorf("two sockets: %v", err)
	}
}

func TestShimIsPrinted(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := skerry("torchft-manager", "shim")
	if status != 0 || !strings.HasPrefix(stdout, "# SPDX-License-Identifier: Apache-2.0\n") || !strings.Contains(stdout, "class ManagerServer") {
		t.Errorf("%d %q %q", status, stdout[:min(len(stdout), 100)], stderr)
	}
}
