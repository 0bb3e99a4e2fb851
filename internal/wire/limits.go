package wire

import "time"

// What a peer may send, at most.
const (
	// MaxMessageBytes bounds one gRPC message. A quorum of MaxMembers with
	// usual addresses is about 2 MiB; the rest is room for members' data.
	MaxMessageBytes = 32 << 20

	// MaxMembers bounds the members of a quorum and of a last answer.
	MaxMembers = 10_000

	// MaxGroupWorldSize bounds the ranks of one replica group, and so the
	// digests of a step.
	MaxGroupWorldSize = 16_384

	// MaxAccusations bounds the accusations in one message.
	MaxAccusations = 1_024

	// MaxReplicaIDBytes bounds a replica id: a name and a UUID.
	MaxReplicaIDBytes = 256

	// MaxJobBytes bounds a job's name, which is a part of store prefixes.
	MaxJobBytes = 128

	// MaxClusterBytes bounds a cluster id.
	MaxClusterBytes = 64

	// MaxAddressBytes bounds an address or URL.
	MaxAddressBytes = 1_024

	// MaxDataBytes bounds a member's opaque data.
	MaxDataBytes = 16 << 10

	// MaxTextBytes bounds a reason, an evidence or another text for people.
	MaxTextBytes = 1_024

	// MaxMetadataBytes bounds what a checkpoint transport says of itself.
	MaxMetadataBytes = 4 << 10

	// MaxServers bounds the lighthouse servers and jobs listed in one message.
	MaxServers = 10_000

	// MaxHistory bounds the history entries of one answer.
	MaxHistory = 1_000

	// MaxNumber bounds steps, quorum ids, rounds and other numbers that rise:
	// 2^53.
	MaxNumber = 1 << 53

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
