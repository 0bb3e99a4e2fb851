package main

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
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

// startTorchftManager runs the command for replica r:1 until ctx ends, and connects
// to the address that it prints; ended is told its error.
func startTorchftManager(ctx context.Context, t *testing.T, args ...string) (conn *grpc.ClientConn, ended <-chan error) {
	t.Helper()
	out, in := io.Pipe()
	cmd := newTorchftManagerCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true // as under the root
	cmd.SetArgs(append([]string{"--replica-id", "r:1", "--store", "s:1"}, args...))
	cmd.SetOut(in)
	cmd.SetErr(io.Discard)
	end := make(chan error, 1)
	go func() { end <- cmd.ExecuteContext(ctx) }()
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	conn, err = grpc.NewClient(strings.TrimPrefix(strings.TrimSpace(address), "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // it has served
	return conn, end
}

// The command prints its address, serves a rank, and ends when it is killed.
func TestTorchftManagerServesARank(t *testing.T) {
	t.Parallel()
	l := lighthousetest.Start(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, ended := startTorchftManager(ctx, t, "--lighthouse", l.Addr)
	rank := torchftpb.NewManagerServiceClient(conn)
	plan, err := rank.Quorum(ctx, &torchftpb.ManagerQuorumRequest{Step: 1})
	if err != nil || plan.GetReplicaWorldSize() != 1 || plan.GetStoreAddress() != "s:1" {
		t.Errorf("plan %v, %v", plan, err)
	}
	_, _ = rank.Kill(ctx, &torchftpb.KillRequest{Msg: "enough"}) // its answer may be cut
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed by an operator: enough") {
		t.Errorf("ended with %v", err)
	}
}

// torchft's ranks, which speak no TLS, train by a lighthouse that takes nothing
// else: their manager has the certificate.
func TestTorchftManagerOverTLS(t *testing.T) {
	t.Parallel()
	creds := guardtest.New(t)
	o := creds.Options(t, guard.Lighthouse, "server")
	l := lighthousetest.Start(t, func(c *lighthouse.Config) { c.Guard = o })
	o = creds.Options(t, guard.Replica, "replica")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, tc := range []struct {
		args []string
		want bool
	}{
		{[]string{"--tls-ca", o.TLSCA, "--tls-cert", o.TLSCert, "--tls-key", o.TLSKey, "--token-file", o.TokenFile}, true},
		{nil, false},
	} {
		run, stop := context.WithCancel(ctx)
		conn, ended := startTorchftManager(run, t, append([]string{"--lighthouse", "https://" + l.Addr}, tc.args...)...)
		patience := 20 * time.Second
		if !tc.want {
			patience = time.Second // it is refused at once, and tried again
		}
		call, over := context.WithTimeout(ctx, patience)
		plan, err := torchftpb.NewManagerServiceClient(conn).Quorum(call, &torchftpb.ManagerQuorumRequest{Step: 1})
		if got := err == nil && plan.GetReplicaWorldSize() == 1; got != tc.want {
			t.Errorf("with %v: plan %v, %v", tc.args, plan, err)
		}
		over()
		stop()
		<-ended
	}
}

// torchft's ranks train with the join token of their job, whose name the manager takes
// from it; with another job's name it is refused at the start.
func TestTorchftManagerWithAJoinToken(t *testing.T) {
	t.Parallel()
	creds := guardtest.New(t)
	l := lighthousetest.Start(t, func(c *lighthouse.Config) { c.Guard.Token = creds.Token })
	path := filepath.Join(t.TempDir(), "join")
	if err := guard.WriteSecret(path, creds.JoinToken(t, "vision")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	conn, ended := startTorchftManager(ctx, t, "--lighthouse", l.Addr, "--token-file", path)
	plan, err := torchftpb.NewManagerServiceClient(conn).Quorum(ctx, &torchftpb.ManagerQuorumRequest{Step: 1})
	if err != nil || plan.GetReplicaWorldSize() != 1 {
		t.Errorf("plan %v, %v", plan, err)
	}
	st, err := l.Lighthouse.Status(ctx)
	if err != nil || len(st.Jobs) != 1 || st.Jobs[0].Job != "vision" {
		t.Errorf("jobs %+v, %v; want vision", st.Jobs, err)
	}
	cancel()
	<-ended
	cmd := newTorchftManagerCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true // as under the root
	cmd.SetArgs([]string{"--replica-id", "r:1", "--store", "s:1", "--lighthouse", l.Addr, "--token-file", path, "--job", "text"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), `--job = "text", and the join token is of job "vision"`) {
		t.Errorf("with another job: %v", err)
	}
}

func TestTorchftManagerNeedsAnId(t *testing.T) {
	t.Parallel()
	cmd := newTorchftManagerCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true // as under the root
	cmd.SetArgs(nil)
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--replica-id is missing") {
		t.Errorf("got %v, want an error about --replica-id", err)
	}
}
