package wire

import (
	"time"

	"github.com/skerry-ft/skerry/quorum"
)

// What a peer may send, at most.
const (
	// MaxMessageBytes bounds one gRPC message. A quorum of MaxMembers with
	// usual addresses is about 3 MiB; the rest is room for members' data.
	MaxMessageBytes = 32 << 20

	// MaxRequestBytes bounds a message of those that a client sends: a last answer
	// of 1,024 members, the most that it may name, with the longest addresses is 3 MiB.
	MaxRequestBytes = 4 << 20

	// MaxUnaryBytes bounds the request of a unary call, and MaxReportBytes that of a
	// rank that reports: its accusations may be 66 KiB.
	MaxUnaryBytes  = 64 << 10
	MaxReportBytes = 128 << 10

	// MaxMembers bounds the members of a quorum.
	MaxMembers = quorum.MaxMembers

	// MaxGroupWorldSize bounds the ranks of one replica group, and so the
	// digests of a step.
	MaxGroupWorldSize = quorum.MaxGroupWorldSize

	// MaxAccusations bounds the accusations in one message.
	MaxAccusations = quorum.MaxAccusations

	// MaxReplicaIDBytes bounds a replica id: a name and a UUID.
	MaxReplicaIDBytes = quorum.MaxIDBytes

	// MaxJobBytes bounds a job's name, which is a part of store prefixes.
	MaxJobBytes = 128

	// MaxClusterBytes bounds a cluster id.
	MaxClusterBytes = 64

	// MaxAddressBytes bounds an address or URL.
	MaxAddressBytes = quorum.MaxAddressBytes

	// MaxDataBytes bounds a member's opaque data.
	MaxDataBytes = 16 << 10

	// MaxTorchftDataBytes is the same for torchft's members, and MaxExtraBytes bounds
	// what they say beyond our words: 2,000 handles of 130 bytes, one for each rank. A
	// join of theirs needs MaxTorchftJoinBytes, more than another unary call.
	MaxTorchftDataBytes = quorum.MaxDataBytes
	MaxExtraBytes       = 256 << 10
	MaxTorchftJoinBytes = MaxTorchftDataBytes + MaxExtraBytes + 8<<10

	// MaxTextBytes bounds a reason or another text for people.
	MaxTextBytes = 1_024

	// MaxEvidenceBytes bounds an accusation's evidence.
	MaxEvidenceBytes = quorum.MaxEvidenceBytes

	// MaxMetadataBytes bounds what a checkpoint transport says of itself.
	MaxMetadataBytes = 4 << 10

	// MaxServers bounds the lighthouse servers and jobs listed in one message.
	MaxServers = 1_024

	// MaxHistory bounds the history entries of one answer.
	MaxHistory = 1_000

	// MaxNumber bounds steps, quorum ids, rounds and other numbers that rise:
	// 2^53.
	MaxNumber = quorum.MaxStep

	// MaxTimeout bounds every timeout that a peer names.
	MaxTimeout = 24 * time.Hour

	// MaxBallotBytes bounds an encoded ballot.
	MaxBallotBytes = 512
)

// TokenBytes is the length of a quorum's token.
const TokenBytes = 16

// JobMetadata is the gRPC metadata key by which a client that has no job field
// (torchft's) may name its job.
const JobMetadata = "skerry-job"

// DefaultJob is the job of those who name none.
const DefaultJob = "default"
