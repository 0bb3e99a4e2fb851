// Package answer encodes a formed quorum once for all who are told of it.
package answer

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/quorum"
)

// Answer is a quorum that is encoded once for all who are told of it. What it
// hands out is shared and never changed. It is safe for concurrent use, but for
// Torchft, which belongs to the job's goroutine.
type Answer struct {
	q      quorum.Quorum
	list   func() *skerrypb.Quorum
	viewer func() *quorum.Viewer

	// Torchft is the answer to calls of torchft's clients. All members of a quorum of
	// theirs have a call waiting when the first of them is answered: extra finds
	// there what each said beyond our words.
	Torchft func() *torchftpb.Quorum
}

// New encodes nothing yet; extra is what a member of torchft's said beyond our words.
func New(q quorum.Quorum, extra func(quorum.ReplicaID) []byte) *Answer {
	return &Answer{
		q:      q,
		list:   sync.OnceValue(func() *skerrypb.Quorum { return encoded(wire.QuorumToProto(q)) }),
		viewer: sync.OnceValue(func() *quorum.Viewer { return quorum.NewViewer(&q) }),
		Torchft: sync.OnceValue(func() *torchftpb.Quorum {
			theirs := wire.QuorumToTorchft(q)
			for _, m := range theirs.GetParticipants() {
				wire.AddExtra(m, extra(quorum.ReplicaID(m.GetReplicaId())))
			}
			return encoded(theirs)
		}),
	}
}

// Down is the answer to a join, for a session, which makes it when it sends it.
func (a *Answer) Down(to quorum.Answered) func() *skerrypb.Down {
	return func() *skerrypb.Down {
		q := a.list
		if len(a.q.Members) > quorum.MaxListed {
			q = func() *skerrypb.Quorum { return wire.QuorumToProto(a.viewer().For(to.ReplicaID)) }
		}
		return &skerrypb.Down{Message: &skerrypb.Down_Answer{
			Answer: &skerrypb.Answer{Number: to.Number, Quorum: q()}}}
	}
}

// encoded is a message of our own making as an empty one that has its encoding for
// unknown fields. They are copied as they are when it is sent: on the wire there is no
// difference.
func encoded[M proto.Message](m M) M {
	data, err := proto.Marshal(m)
	if err != nil {
		// Only a string that is not UTF-8 fails, and wire let none in.
		panic(fmt.Sprintf("answer: encode a %T: %v", m, err))
	}
	empty := m.ProtoReflect().New()
	empty.SetUnknown(data)
	return empty.Interface().(M)
}
