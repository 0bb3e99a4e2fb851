package lighthouse

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/internal/web"
)

// orderOf is an order that came as a call: by its certificate's name, or its address. Of
// one that was passed on it is the server that did so.
func orderOf(ctx context.Context, reason string) web.Order {
	o := web.Order{Reason: wire.Text(reason)}
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return o
	}
	o.From = p.Addr.String()
	if host, _, err := net.SplitHostPort(o.From); err == nil {
		o.From = host
	}
	o.By = o.From
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && guard.Verified(&info.State) {
		cert := info.State.PeerCertificates[0]
		if o.By = guard.Shown(cert.Subject.CommonName); o.By == "" {
			o.By = fmt.Sprintf("certificate %x", cert.SerialNumber)
		}
	}
	return o
}
