package wire_test

import (
	"errors"
	"fmt"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/quorum"
)

// What a peer sends is bounded before anybody sees it; the error says which
// field broke which bound.
func ExampleJoinFromProto() {
	_, err := wire.JoinFromProto(&skerrypb.Join{Member: &skerrypb.Member{
		ReplicaId: "a", GroupWorldSize: 1, Position: &skerrypb.Position{Step: -1}}})
	fmt.Println(err)
	fmt.Println(errors.Is(err, quorum.ErrInvalid))
	// Output:
	// join.member.position.step = -1, want 0 to 9007199254740992
	// true
}

// A refusal keeps its meaning over the wire.
func ExampleRefusalError() {
	sent := wire.RefusalOf(7, fmt.Errorf("%w: replica-0 is alive elsewhere", quorum.ErrNameInUse))
	received := wire.RefusalError(sent)
	fmt.Println(errors.Is(received, quorum.ErrNameInUse), received.Final)
	fmt.Println(received)
	// Output:
	// true true
	// quorum: name in use: replica-0 is alive elsewhere
}
