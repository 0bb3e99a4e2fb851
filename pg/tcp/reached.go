package tcp

import (
	"context"
	"fmt"
	"net"

	"github.com/skerry-ft/skerry/internal/netaddr"
	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/pg/netif"
)

// openRemedy is what to set for a group that other hosts reach.
const openRemedy = "set a Token on all ranks, or Open (tcp.Options, pg.Options, dist.InitConfig; SKERRY_OPEN=1) " +
	"to let whoever comes take part"

// openOfAnyWorld is the same where there are certificates: they say whose the ranks
// are, and nothing of which group's.
const openOfAnyWorld = "certificates alone let in any replica's that they admit, of another group too; set a Token on all ranks besides, " +
	"or Open (tcp.Options, pg.Options, dist.InitConfig; SKERRY_OPEN=1) to let those take part"

// ownAddress is where to listen if the store tells nothing: this host's own address
// if strangers may reach it or cannot take part, else loopback.
func (b *Backend) ownAddress(ctx context.Context, cfg *pg.Config) string {
	if b.opt.Open || len(cfg.Token) > 0 {
		return netif.HostAddress(ctx)
	}
	return "127.0.0.1"
}

// checkReached refuses listeners that strangers reach, if they could take part.
func (b *Backend) checkReached(cfg *pg.Config, listeners []net.Listener) error {
	remedy := openRemedy
	if cfg.TLS != nil {
		remedy = openOfAnyWorld
	}
	for _, ln := range listeners {
		err := netaddr.Check(context.Background(), ln.Addr().String(), b.opt.Open || len(cfg.Token) > 0, remedy)
		if err != nil {
			return fmt.Errorf("tcp: %w", err)
		}
	}
	return nil
}
