package lighthouse

import (
	"context"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/lighthouse/internal/access"
	"github.com/skerry-ft/skerry/lighthouse/internal/web"
)

// orderOf is an order that came as a call.
func (s *Server) orderOf(ctx context.Context, method string, req interface{ GetReason() string }) web.Order {
	a := access.AskerOf(ctx, s.guard, method, req)
	return web.Order{By: a.By, From: a.From, Reason: wire.Text(req.GetReason())}
}
