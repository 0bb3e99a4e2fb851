package lighthouse

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/lighthouse/internal/web"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// killTimeout bounds the dialogue with the manager of a replica that is killed.
const killTimeout = 5 * time.Second

// kill ends a replica's process through its manager, ours or torchft's, at the
// address that the replica itself named. It says nothing to the rules: the
// death is seen like any other.
func (s *Server) kill(ctx context.Context, name string, id quorum.ReplicaID, o web.Order) error {
	j, err := s.existing(ctx, name)
	if err != nil {
		return err
	}
	var address string
	var kind quorum.ClientKind
	err = j.do(ctx, func(now time.Time) {
		kind = j.rules.Kind()
		for _, r := range j.machine.Status(now).Replicas {
			if r.ReplicaID == id {
				address = r.Address
			}
		}
	})
	if err != nil {
		return err
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return fmt.Errorf("%w: no manager address is known of replica %q", quorum.ErrUnknown, id)
	}
	ctx, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	if err := s.callKill(ctx, u.Host, j.name, kind, wire.Text(o.Reason)); err != nil {
		said := status.Convert(err) // without what grpc puts around a manager's words
		return status.Errorf(said.Code(), "kill replica %s at %s: %s", id, address, wire.Text(said.Message()))
	}
	s.metrics.Killed(j.name)
	j.log.Info().Str(logkey.ReplicaID, string(id)).Str(logkey.Addr, address).Object("order", order(o)).Msg("replica killed")
	_ = j.do(ctx, func(now time.Time) { j.asks(now, story.Kill, id, o) }) // it is killed, whether that can be told or not
	return nil
}

// callKill returns nil if the manager answered, or if its connection, once
// made, broke: who dies at once does not answer.
func (s *Server) callKill(ctx context.Context, addr, job string, kind quorum.ClientKind, reason string) error {
	options := append(wire.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if kind != quorum.KindTorchft { // torchft's managers know neither certificates nor tokens
		options = append(wire.DialOptions(), s.guard.Speaks().DialOptions(guard.Party{Role: guard.Replica, Job: job}, addr)...)
	}
	conn, err := grpc.NewClient("passthrough:///"+addr, options...)
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
	if kind == quorum.KindTorchft {
		_, err = torchftpb.NewManagerServiceClient(conn).Kill(ctx, &torchftpb.KillRequest{Msg: reason})
	} else {
		req := &skerrypb.KillRequest{Message: reason}
		audience := guard.Audience(skerrypb.Manager_Kill_FullMethodName, addr)
		_, err = skerrypb.NewManagerClient(conn).Kill(s.guard.Speaks().Ordered(ctx, audience, req), req)
	}
	if status.Code(err) == codes.Unavailable {
		return nil
	}
	return err
}
