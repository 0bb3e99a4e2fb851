package torchft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/quorum"
)

// planFor tells one rank what to do in a quorum, by torchft's own rules, for
// all managers of a job must come to the same plan.
//
// The members at the highest step are up to date; with initSync at step 0 only
// the primary is, the one whose store the ranks of this number meet at. The i-th
// of those that heal asks the (i + group rank)-th of those that are up to date.
//
// Source: torchft compute_quorum_results.
func planFor(q *torchftpb.Quorum, id string, groupRank int, initSync bool) (*torchftpb.ManagerQuorumResponse, error) {
	members := slices.Clone(q.GetParticipants())
	slices.SortFunc(members, func(a, b *torchftpb.QuorumMember) int {
		return strings.Compare(a.GetReplicaId(), b.GetReplicaId())
	})
	me := slices.IndexFunc(members, func(m *torchftpb.QuorumMember) bool { return m.GetReplicaId() == id })
	if me < 0 {
		return nil, fmt.Errorf("%w: %q in quorum %d", quorum.ErrNotMember, id, q.GetQuorumId())
	}
	p := &torchftpb.ManagerQuorumResponse{
		QuorumId: q.GetQuorumId(), ReplicaRank: int64(me), ReplicaWorldSize: int64(len(members)),
	}
	for _, m := range members {
		p.MaxStep = max(p.MaxStep, m.GetStep())
		p.CommitFailures = max(p.CommitFailures, m.GetCommitFailures())
		p.ReplicaIds = append(p.ReplicaIds, m.GetReplicaId())
		if handles := m.GetReconfigureHandles(); groupRank < len(handles) {
			p.ReconfigureHandles = append(p.ReconfigureHandles, handles[groupRank])
		}
	}
	var newest []int
	for rank, m := range members {
		if m.GetStep() == p.MaxStep {
			newest = append(newest, rank)
		}
	}
	if at := slices.Index(newest, me); at >= 0 {
		p.MaxReplicaRank = new(int64(at))
	}
	p.MaxWorldSize = int64(len(newest))
	primary := newest[groupRank%len(newest)]
	p.StoreAddress = members[primary].GetStoreAddress()
	if initSync && p.MaxStep == 0 {
		newest = []int{primary}
	}
	planHeals(p, members, newest, me, groupRank)
	return p, nil
}

// planHeals says from whom this member heals, and who asks it.
func planHeals(p *torchftpb.ManagerQuorumResponse, members []*torchftpb.QuorumMember, upToDate []int, me, groupRank int) {
	i := 0
	for rank := range members {
		if slices.Contains(upToDate, rank) {
			continue
		}
		source := upToDate[(i+groupRank)%len(upToDate)]
		i++
		if rank == me {
			p.Heal = true
			p.RecoverSrcReplicaRank = new(int64(source))
			p.RecoverSrcManagerAddress = members[source].GetAddress()
		}
		if source == me {
			p.RecoverDstReplicaRanks = append(p.RecoverDstReplicaRanks, int64(rank))
		}
	}
}
