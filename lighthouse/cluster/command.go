package cluster

import (
	"github.com/skerry-ft/skerry/lighthouse/api"
	"github.com/skerry-ft/skerry/quorum"
	"github.com/skerry-ft/skerry/quorum/story"
)

// Command is an entry of the raft log. Exactly the fields that its kind names
// are set. Kinds and fields are only ever added.
type Command struct {
	Kind    CommandKind      `json:"kind"`
	Cluster string           `json:"cluster,omitempty"` // found
	Job     string           `json:"job,omitempty"`     // all but found, rise and retire
	UnixMs  int64            `json:"unix_ms,omitempty"` // the same: where a new job's ids start; rise
	Formed  *quorum.Formed   `json:"formed,omitempty"`  // formed
	Config  *quorum.Config   `json:"config,omitempty"`  // configure
	Replica quorum.ReplicaID `json:"replica,omitempty"` // drain, undrain, evict
	Server  string           `json:"server,omitempty"`  // retire
	Told    []story.Told     `json:"told,omitempty"`    // with any command of a job; tell
	Counted bool             `json:"counted,omitempty"` // formed: its leader knew the ledger's last quorum as the job's last
	Highest int64            `json:"highest,omitempty"` // forget: a job with an id above it stays; 0: none does
	Wanted  *api.Wanted      `json:"wanted,omitempty"`  // scale
}

// CommandKind says what a command does.
type CommandKind string

// The kinds of commands; those that only this package gives have small letters.
const (
	commandFound     CommandKind = "found"     // gives the cluster its id, once
	CommandFormed    CommandKind = "formed"    // a job's next quorum
	CommandConfigure CommandKind = "configure" // a job's own rules
	CommandDrain     CommandKind = "drain"
	// Servers of a version before it refuse it: one of them that leads next drains the replica.
	CommandUndrain CommandKind = "undrain"
	CommandEvict   CommandKind = "evict"
	CommandTell    CommandKind = "tell" // what was told of a job; older servers refuse it, which changes nothing

	// How many replicas are wanted of a job, for its launchers; older servers refuse it, and
	// forget the number: launchers keep what they had.
	CommandScale CommandKind = "scale"

	CommandUnconfigure CommandKind = "unconfigure" // back to the servers' rules
	CommandForget      CommandKind = "forget"      // nobody uses the job any more
	commandRise        CommandKind = "rise"        // all ids to come are above UnixMs
	commandRetire      CommandKind = "retire"      // a raft id that is never to be used again
)
