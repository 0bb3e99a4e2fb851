// Package killer ends a replica's process through its manager, ours or torchft's.
package killer

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse/internal/network"
	"github.com/skerry-ft/skerry/quorum"
)

// Replica is which replica is killed.
type Replica struct {
	Addr string // its manager's
	Job  string
	Kind quorum.ClientKind
}

// Kill asks a replica's manager over n to end its process, speaking as g does. It returns nil if the
// manager answered, or if its connection, once made, broke: who dies at once does not answer.
// It blocks until then, or until ctx ends.
func Kill(ctx context.Context, n network.Network, g *guard.Guard, r Replica, reason string) error {
	options := append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if r.Kind != quorum.KindTorchft { // torchft's managers know neither certificates nor tokens
		options = append(wire.DialOptions(), g.DialOptions(guard.Party{Role: guard.Replica, Job: r.Job}, r.Addr)...)
	}
	conn, err := grpc.NewClient("passthrough:///"+r.Addr, append(options, network.DialOptions(n)...)...)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if state == connectivity.TransientFailure {
			return errors.New("nobody answers there")
		}
		if !conn.WaitForStateChange(ctx, state) {
			return context.Cause(ctx)
		}
	}
	if r.Kind == quorum.KindTorchft {
		_, err = torchftpb.NewManagerServiceClient(conn).Kill(ctx, &torchftpb.KillRequest{Msg: reason})
	} else {
		req := &skerrypb.KillRequest{Message: reason}
		audience := guard.Audience(skerrypb.Manager_Kill_FullMethodName, r.Addr)
		_, err = skerrypb.NewManagerClient(conn).Kill(g.Ordered(ctx, audience, req), req)
	}
	if status.Code(err) == codes.Unavailable {
		return nil
	}
	return err
}
