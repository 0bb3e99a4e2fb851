package access

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/skerry-ft/skerry/internal/guard"
)

// HopKey marks, as gRPC metadata and as an HTTP header, what another server
// has passed on: it is served or refused, and never passed on again.
const HopKey = "skerry-hop"

// PassedOn is the context of a call that is passed on: the caller's deadline and
// metadata, and the mark of a hop. What it proved of the token stays here: this
// server's own proof stands for it, or, for a call that is Unvouched, none.
func PassedOn(ctx context.Context) context.Context {
	in, _ := metadata.FromIncomingContext(ctx)
	out := metadata.Pairs(HopKey, "1")
	for key, values := range in {
		// What begins so is the transport's own.
		if key == guard.BearerMetadata || key == guard.ProofMetadata || key == guard.OrderMetadata || strings.HasPrefix(key, ":") || strings.HasPrefix(key, "grpc-") || key == "content-type" || key == "user-agent" || key == "te" {
			continue
		}
		out.Append(key, values...)
	}
	return metadata.NewOutgoingContext(ctx, out)
}
