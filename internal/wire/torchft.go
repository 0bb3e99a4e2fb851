package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/skerry-ft/skerry/internal/wire/torchftpb"
	"github.com/skerry-ft/skerry/quorum"
)

// MemberFromTorchft converts the requester of a torchft quorum call. A world
// size of 0 counts as 1: torchft's own client leaves it out by default.
func MemberFromTorchft(m *torchftpb.QuorumMember) (quorum.Member, error) {
	var c check
	if m == nil {
		c.missing("requester")
		return quorum.Member{}, c.result()
	}
	c.enter("requester")
	worldSize := c.counter("world_size", m.GetWorldSize())
	r := quorum.Member{
		ReplicaID:      c.newID("replica_id", m.GetReplicaId()),
		Address:        c.text("address", m.GetAddress(), MaxAddressBytes),
		StoreAddress:   c.text("store_address", m.GetStoreAddress(), MaxAddressBytes),
		GroupWorldSize: int(c.number("world_size", max(int64(worldSize), 1), 1, MaxGroupWorldSize)),
		Position:       quorum.Position{Step: c.rising("step", m.GetStep())},
		ShrinkOnly:     m.GetShrinkOnly(),
		CommitFailures: c.rising("commit_failures", m.GetCommitFailures()),
		Data:           c.data("data", m.GetData(), MaxTorchftDataBytes),
	}
	return r, c.result()
}

// ExtraFromTorchft returns what m says beyond our words, in protobuf's own
// encoding: the handles by which a newer torchft's process groups are reached
// anew, and fields that are not in our torchft.proto at all. They are its
// members' affair, and only passed on.
func ExtraFromTorchft(m *torchftpb.QuorumMember) ([]byte, error) {
	var c check
	c.enter("requester")
	beyond := &torchftpb.QuorumMember{ReconfigureHandles: m.GetReconfigureHandles()}
	beyond.ProtoReflect().SetUnknown(m.ProtoReflect().GetUnknown())
	if size := proto.Size(beyond); size > MaxExtraBytes {
		c.fail("reconfigure_handles and unknown fields", strconv.Itoa(size)+" bytes", fmt.Sprintf("at most %d", MaxExtraBytes))
		return nil, c.result()
	}
	extra, err := proto.Marshal(beyond)
	return extra, errors.Join(c.result(), err)
}

// AddExtra adds to m what ExtraFromTorchft returned for the same member.
func AddExtra(m *torchftpb.QuorumMember, extra []byte) {
	// What was encoded here a moment ago can be read.
	_ = proto.UnmarshalOptions{Merge: true}.Unmarshal(extra, m)
}

// MemberToTorchft converts m into what torchft's clients know of a member.
func MemberToTorchft(m quorum.Member) *torchftpb.QuorumMember {
	return &torchftpb.QuorumMember{
		ReplicaId:      string(m.ReplicaID),
		Address:        m.Address,
		StoreAddress:   m.StoreAddress,
		Step:           m.Position.Step,
		WorldSize:      uint64(m.GroupWorldSize),
		ShrinkOnly:     m.ShrinkOnly,
		Data:           m.Data,
		CommitFailures: m.CommitFailures,
	}
}

// QuorumToTorchft converts q. torchft's participants are our members: its
// clients compute from the steps who heals.
func QuorumToTorchft(q quorum.Quorum) *torchftpb.Quorum {
	return &torchftpb.Quorum{
		QuorumId:     q.ID,
		Participants: listToProto(q.Members, MemberToTorchft),
		Created:      timestamppb.New(time.UnixMilli(q.CreatedMs)),
	}
}

// JobPrefix returns the part of a torchft replica id before the first '/', by
// which its client may name a job; ok is false if there is none, or if it
// cannot be a job's name.
func JobPrefix(id quorum.ReplicaID) (job string, ok bool) {
	name, _, found := strings.Cut(string(id), "/")
	if !found || name == "" {
		return "", false
	}
	if _, err := CheckJob(name); err != nil {
		return "", false
	}
	return name, true
}
