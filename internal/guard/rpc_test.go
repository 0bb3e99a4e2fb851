package guard_test

import (
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/skerry-ft/skerry/internal/guard"
)

// TestBearerNeedsPrivacy: the token itself is taken only where nobody else can
// read it; a proof anywhere.
func TestBearerNeedsPrivacy(t *testing.T) {
	t.Parallel()
	s := guard.RandomSecret()
	g := &guard.Guard{Token: guard.FixedToken(s)}
	far, near := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	bearer := metadata.Pairs(guard.BearerMetadata, "Bearer "+string(s.Reveal()))
	for _, tc := range []struct {
		name string
		peer *peer.Peer
		md   metadata.MD
		ok   bool
	}{
		{"far in the clear", &peer.Peer{Addr: far}, bearer, false},
		{"far over TLS", &peer.Peer{Addr: far, AuthInfo: credentials.TLSInfo{}}, bearer, true},
		{"loopback", &peer.Peer{Addr: near}, bearer, true},
		{"a proof from far in the clear", &peer.Peer{Addr: far}, metadata.Pairs(guard.ProofMetadata, g.Token.Prove("m", nil)), true},
		{"nothing", &peer.Peer{Addr: near}, nil, false},
	} {
		ctx := peer.NewContext(metadata.NewIncomingContext(t.Context(), tc.md), tc.peer)
		if err := g.CheckToken(ctx, "m", nil); tc.ok != (err == nil) || err != nil && !errors.Is(err, guard.ErrDenied) {
			t.Errorf("%s: %v, want allowed %v", tc.name, err, tc.ok)
		}
	}
}
