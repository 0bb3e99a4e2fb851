package hostile

import (
	"bufio"
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse/lighthousetest"
)

// torchftVictim is a program of torchft's side, in a process of its own, that tells
// its address first.
func torchftVictim(t *testing.T, args ...string) (*server, *grpc.ClientConn) {
	t.Helper()
	if testing.Short() {
		t.Skip("a process and some seconds: not with -short")
	}
	args = slices.Concat([]string{builds.Path(t, "cmd/skerry")}, args, []string{"--lighthouse", lighthousetest.Start(t, nil).Addr})
	p, _, out := testkit.Talk(t, args[1], nil, args...)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("its address: %v", err)
	}
	s := &server{Program: p, addr: strings.TrimPrefix(strings.TrimSpace(line), "http://")}
	return s, connect(t, s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// TestTorchftPorts: the manager that torchft's ranks call and the proxy that their
// managers call bear messages that are too long, and connections that flood.
func TestTorchftPorts(t *testing.T) {
	t.Parallel()
	manager, rank := torchftVictim(t, "torchft-manager", "--replica-id", "r:1", "--store", "s:1")
	proxy, job := torchftVictim(t, "torchft-proxy", "--bind", "127.0.0.1:0")
	for name, v := range map[string]struct {
		s      *server
		ask    func() error
		method string
	}{
		"manager": {manager, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := torchftpb.NewManagerServiceClient(rank).Quorum(ctx, &torchftpb.ManagerQuorumRequest{Step: 1})
			return err
		}, torchftpb.ManagerService_Quorum_FullMethodName},
		"proxy": {proxy, func() error { return quorumOfOne(job) }, torchftpb.LighthouseService_Quorum_FullMethodName},
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("long messages", func(t *testing.T) {
				conn := connect(t, v.s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
				for _, size := range []int{bombBytes, wire.RequestBytes(v.method) + 1} {
					body := bytes.Repeat([]byte{0x7a, 0}, (size+1)/2) // fields that nobody knows
					v.s.unmoved(t, v.ask, func() {
						for range 4 {
							if err := call(conn, v.method, body); status.Code(err) != codes.ResourceExhausted {
								t.Errorf("%d bytes: %v, want ResourceExhausted", len(body), err)
							}
						}
					})
				}
			})
			for flood, next := range map[string]func(i int) []byte{
				"rapid reset": func(i int) []byte {
					id := uint32(2*i + 1)
					return append(headers(id, v.method), frame(3, 0, id, []byte{0, 0, 0, 8})...)
				},
				"unknown frames": func(int) []byte { return frame(0x77, 0, 0, make([]byte, 64)) },
			} {
				t.Run(flood, func(t *testing.T) {
					v.s.unmoved(t, v.ask, func() {
						if !floodWith(t, v.s, nil, 50_000, next) {
							t.Error("it was not cut")
						}
					})
				})
			}
		})
	}
}
