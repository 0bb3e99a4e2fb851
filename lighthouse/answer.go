package lighthouse

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/quorum"
)

// answer is a quorum that is encoded once for all who are told of it. What it
// hands out is shared and never changed. It is safe for concurrent use, but for
// torchft, which belongs to the job's goroutine.
type answer struct {
	q      quorum.Quorum
	extra  func(quorum.ReplicaID) []byte // what torchft's members say beyond our words
	list   func() *skerrypb.Quorum
	viewer func() *quorum.Viewer
	theirs *torchftpb.Quorum
}

func newAnswer(q quorum.Quorum, extra func(quorum.ReplicaID) []byte) *answer {
	a := &answer{q: q, extra: extra}
	a.list = sync.OnceValue(func() *skerrypb.Quorum {
		encoded := &skerrypb.Quorum{}
		encoded.ProtoReflect().SetUnknown(marshal(wire.QuorumToProto(a.q)))
		return encoded
	})
	a.viewer = sync.OnceValue(func() *quorum.Viewer { return quorum.NewViewer(&a.q) })
	return a
}

// down is the answer to a join, for a session, which makes it when it sends it.
func (a *answer) down(to quorum.Answered) func() *skerrypb.Down {
	return func() *skerrypb.Down {
		q := a.list
		if len(a.q.Members) > quorum.MaxListed {
			q = func() *skerrypb.Quorum { return wire.QuorumToProto(a.viewer().For(to.ReplicaID)) }
		}
		return &skerrypb.Down{Message: &skerrypb.Down_Answer{
			Answer: &skerrypb.Answer{Number: to.Number, Quorum: q()}}}
	}
}

// torchft is the answer to calls of torchft's clients. All members of a quorum of
// theirs have a call waiting when the first of them is answered: extra finds
// there what each said beyond our words.
func (a *answer) torchft() *torchftpb.Quorum {
	if a.theirs == nil {
		q := wire.QuorumToTorchft(a.q)
		for _, m := range q.GetParticipants() {
			wire.AddExtra(m, a.extra(quorum.ReplicaID(m.GetReplicaId())))
		}
		a.theirs = &torchftpb.Quorum{}
		a.theirs.ProtoReflect().SetUnknown(marshal(q))
	}
	return a.theirs
}

// marshal encodes a message of our own making. Its bytes, set as the unknown
// fields of an empty message of its type, are copied as they are when that is
// sent: on the wire there is no difference.
func marshal(m proto.Message) []byte {
	encoded, err := proto.Marshal(m)
	if err != nil {
		// Only a string that is not UTF-8 fails, and wire let none in.
		panic(fmt.Sprintf("lighthouse: encode a %T: %v", m, err))
	}
	return encoded
}
