// Package managers calls the managers of replicas, ours and torchft's.
package managers

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
	"github.com/skerry-ft/skerry/quorum"
)

// Manager is where a replica's manager is, and of which job and kind it is.
type Manager struct {
	Addr, Job string
	Client    quorum.ClientKind
}

// Kill has a manager end its process. It returns nil if the manager answered, or if its
// connection, once made, broke: what dies at once does not answer.
func Kill(ctx context.Context, g *guard.Guard, m Manager, reason string) error {
	options := append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if m.Client != quorum.KindTorchft { // torchft's managers know neither certificates nor tokens
		options = append(wire.DialOptions(), g.Speaks().DialOptions(guard.Party{Role: guard.Replica, Job: m.Job}, m.Addr)...)
	}
	conn, err := grpc.NewClient("passthrough:///"+m.Addr, options...)
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
	if m.Client == quorum.KindTorchft {
		_, err = torchftpb.NewManagerServiceClient(conn).Kill(ctx, &torchftpb.KillRequest{Msg: reason})
	} else {
		req := &skerrypb.KillRequest{Message: reason}
		audience := guard.Audience(skerrypb.Manager_Kill_FullMethodName, m.Addr)
		_, err = skerrypb.NewManagerClient(conn).Kill(g.Speaks().Ordered(ctx, audience, req), req)
	}
	if status.Code(err) == codes.Unavailable {
		return nil
	}
	return err
}
