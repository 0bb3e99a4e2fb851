package lighthouse

import (
	"github.com/skerry-ft/skerry/internal/wire"
	"github.com/skerry-ft/skerry/internal/wire/skerrypb"
	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/quorum"
)

// answerOnce is a quorum that is converted once for all who are told of it.
// It is owned by the job's goroutine; what it hands out is shared and never
// changed.
type answerOnce struct {
	q       quorum.Quorum
	ours    *skerrypb.Quorum
	torchft *torchftpb.Quorum
}

// down is the answer to the join of that number, for a session.
func (a *answerOnce) down(number uint64) *skerrypb.Down {
	if a.ours == nil {
		a.ours = wire.QuorumToProto(a.q)
	}
	return &skerrypb.Down{Message: &skerrypb.Down_Answer{
		Answer: &skerrypb.Answer{Number: number, Quorum: a.ours}}}
}

// quorum is the answer to calls of torchft's clients. All members of a quorum of
// theirs have a call waiting when the first of them is answered: extra finds
// there what each said beyond our words.
func (a *answerOnce) quorum(extra func(quorum.ReplicaID) []byte) *torchftpb.Quorum {
	if a.torchft == nil {
		a.torchft = wire.QuorumToTorchft(a.q)
		for _, m := range a.torchft.GetParticipants() {
			wire.AddExtra(m, extra(quorum.ReplicaID(m.GetReplicaId())))
		}
	}
	return a.torchft
}
