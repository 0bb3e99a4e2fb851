package durable

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/skerry-ft/skerry/checkpoint/safetensors"
	"github.com/skerry-ft/skerry/internal/problems"
	"github.com/skerry-ft/skerry/quorum"
)

// Writers says which replicas write.
type Writers int

// See Writers, and the package comment.
const (
	// OneWriter: participant 0 of the newest quorum.
	OneWriter Writers = iota
	// EveryReplica: all of them.
	EveryReplica
)

// The defaults of Config.
const (
	defaultKeep         = 3
	defaultMaxFileBytes = 4 << 30
	defaultWriteTimeout = time.Hour
)

// Config says where checkpoints go, when, and which are kept. It is the same in all ranks,
// but for GroupRank, and for Store if each replica has its own.
type Config struct {
	// Store is where they go. Required.
	Store Store

	// Every is how many steps lie between two saves of AfterStep: it saves at steps
	// that are multiples of it. 0: never, and Save does. A run that dies loses so many
	// steps at most, and those since the last write that was finished. Take more
	// than a write lasts.
	Every int64
	// Writers says which replicas write.
	Writers Writers
	// WaitBusy makes a save wait until the write before it is done. Otherwise it is
	// skipped. Set it where GroupWorldSize is above 1 and a write can last longer than
	// Every steps: else ranks may skip different saves, and none becomes whole.
	WaitBusy bool

	// Keep is how many of the newest steps are kept; 0 means 3. With 1 there is nothing
	// to fall back to if it is damaged.
	Keep int
	// KeepEvery keeps, for good, what was saved at steps that are multiples of it; 0:
	// nothing.
	KeepEvery int64
	// KeepAll deletes nothing.
	KeepAll bool

	// MaxFileBytes bounds a file, unless one tensor alone is larger, which is not cut;
	// 0 means 4 GiB.
	MaxFileBytes int64
	// WriteTimeout ends a write that lasts longer, so that a store that hangs does not
	// end all saving; 0 means an hour.
	WriteTimeout time.Duration

	// GroupRank is this process's index in its replica, GroupWorldSize how many there
	// are; 0 means 1. As in manager.Config.
	GroupRank, GroupWorldSize int
	// TrustOthers: a rank reads the digests of its own files only, and of the
	// others' the sizes. Reading takes GroupWorldSize times less, and ranks of which one
	// has found a damaged file go on from different steps: the replica then
	// heals from another one, if there is one that is not so.
	TrustOthers bool

	// OnEvent is told what became of each save, on the goroutines of Run and of the
	// trainer, maybe of both at once; it must not block. nil: events are dropped.
	OnEvent func(Event)
	Log     zerolog.Logger
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	if c.Keep == 0 {
		c.Keep = defaultKeep
	}
	if c.MaxFileBytes == 0 {
		c.MaxFileBytes = defaultMaxFileBytes
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = defaultWriteTimeout
	}
	if c.GroupWorldSize == 0 {
		c.GroupWorldSize = 1
	}
	return c
}

// Validate returns all problems, joined, each as "Field = value, want bound".
func (c Config) Validate() error {
	c = c.withDefaults()
	var l problems.List
	l.Want(c.Store != nil, "Store", c.Store, "a Store")
	problems.NotNegative(&l, "Every", c.Every)
	problems.Within(&l, "Writers", c.Writers, OneWriter, EveryReplica)
	problems.Within(&l, "Keep", c.Keep, 1, 1<<20)
	problems.NotNegative(&l, "KeepEvery", c.KeepEvery)
	l.Want(c.KeepEvery == 0 || c.Every == 0 || c.KeepEvery%c.Every == 0, "KeepEvery", c.KeepEvery, "a multiple of Every, %d: no other step is saved", c.Every)
	problems.Within(&l, "MaxFileBytes", c.MaxFileBytes, 1, safetensors.MaxStateBytes)
	problems.NotNegative(&l, "WriteTimeout", c.WriteTimeout)
	problems.Within(&l, "GroupWorldSize", c.GroupWorldSize, 1, maxGroupWorldSize)
	l.Want(0 <= c.GroupRank && c.GroupRank < c.GroupWorldSize, "GroupRank", c.GroupRank, "0 to %d", c.GroupWorldSize-1)
	return l.Err()
}

// Progress is how far a rank has come; a *manager.Manager knows. One that has HoldsState()
// bool too, as that has, is asked: without the state of Position the save fails.
type Progress interface {
	// Position is that of the tensors.
	Position() quorum.Position
	BatchesCommitted() int64
	// ParticipantRank is the replica's index among those that take part; -1: it heals,
	// or is a spare.
	ParticipantRank() int
	NumParticipants() int
	// ReplicaID names the replica's incarnation: the same in all its ranks, and no
	// other replica's ever.
	ReplicaID() string
}
