package access

import (
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/skerry-ft/skerry/internal/guard"
)

// What is passed on carries no token: the next connection may be one that others
// can read.
func TestNoBearerIsPassedOn(t *testing.T) {
	t.Parallel()
	in := metadata.Pairs(guard.BearerMetadata, "Bearer of-the-operators", "skerry-job", "j", guard.MemberMetadata, "proof")
	out, _ := metadata.FromOutgoingContext(PassedOn(metadata.NewIncomingContext(t.Context(), in)))
	if got := out.Get(guard.BearerMetadata); len(got) > 0 {
		t.Error("the token is passed on")
	}
	for _, key := range []string{"skerry-job", guard.MemberMetadata, HopKey} {
		if len(out.Get(key)) != 1 {
			t.Errorf("%s is not passed on: %v", key, out)
		}
	}
}
