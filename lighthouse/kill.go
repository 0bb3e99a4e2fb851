package lighthouse

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"google.golang.org/grpc/status"

	"github.com/skerry-ft/skerry/internal/logkey"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/internal/killer"
	"github.com/skerry-ft/skerry/lighthouse/internal/web"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// killTimeout bounds the dialogue with the manager of a replica that is killed.
const killTimeout = 5 * time.Second

// Kill implements web.Actions: it ends a replica's process through its manager, ours or torchft's, at the
// address that the replica itself named. It says nothing to the rules: the
// death is seen like any other.
func (s behind) Kill(ctx context.Context, name string, id quorum.ReplicaID, o web.Order) error {
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
	if err := killer.Kill(ctx, s.cfg.Network, s.guard.Speaks(), killer.Replica{Addr: u.Host, Job: j.name, Kind: kind}, wire.Text(o.Reason)); err != nil {
		said := status.Convert(err) // without what grpc puts around a manager's words
		return status.Errorf(said.Code(), "kill replica %s at %s: %s", id, address, wire.Text(said.Message()))
	}
	s.metrics.Killed(j.name)
	j.log.Info().Str(logkey.ReplicaID, string(id)).Str(logkey.Addr, address).Object("order", o).Msg("replica killed")
	j.leadership.feed.Ask(j.name, time.Now().UnixMilli(), story.Kill, id, o)
	return nil
}
