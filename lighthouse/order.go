package lighthouse

import (
	"context"
	"net"

	"google.golang.org/grpc/peer"

	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/internal/access"
	"github.com/skerry-ft/skerry/lighthouse/internal/web"
)

// orderOf is an order that came as a call.
func (s *Server) orderOf(ctx context.Context, method string, req interface{ GetReason() string }) web.Order {
	a := s.askerOf(ctx, method, req)
	return web.Order{By: a.By, From: a.From, Reason: wire.Text(req.GetReason())}
}

// askerOf is who makes a call: as the server says that was asked, or by the name of its
// certificate, the token, or its address.
func (s *Server) askerOf(ctx context.Context, method string, req any) access.Asker {
	if a, ok := access.ToldAsker(ctx, s.guard, method, req); ok {
		return a
	}
	var a access.Asker
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return a
	}
	a.From = p.Addr.String()
	if host, _, err := net.SplitHostPort(a.From); err == nil {
		a.From = host
	}
	a.By = a.From
	if name := guard.CallerName(ctx); name != "" {
		a.By = name
	} else if !s.guard.Token.IsZero() && !guard.IsUnvouched(ctx) {
		a.By = "token"
	}
	return a
}
