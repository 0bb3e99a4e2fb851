package durable

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/skerry-ft/skerry/quorum"
)

// manifestName is what is written last in a group rank's folder.
const manifestName = "manifest.json"

// fileName is the n-th safetensors file of a group rank's folder.
func fileName(n int) string { return fmt.Sprintf("%05d.safetensors", n) }

// folder is a group rank's, within a checkpoint.
func (s shard) folder() string { return fmt.Sprintf("%05d-of-%05d", s.rank, s.size) }

// title names a checkpoint; its cluster is in the manifests.
type title struct {
	step, quorumID int64
	writer         string
}

var (
	titleForm  = regexp.MustCompile(`^([0-9]{16})-([0-9]{16})-([a-zA-Z0-9._-]{1,128})$`)
	folderForm = regexp.MustCompile(`^([0-9]{5})-of-([0-9]{5})$`)
)

// titleOf names what a writer saves at a position. A replica id, "name:uuid", ends in
// what no other has, so that is kept if it is too long.
func titleOf(p quorum.Position, replicaID string) title {
	id := []byte(replicaID)
	for i, c := range id {
		if c >= 0x80 || notInName(rune(c)) {
			id[i] = '_'
		}
	}
	return title{step: p.Step, quorumID: p.QuorumID, writer: string(id[max(0, len(id)-maxWriterBytes):])}
}

// String is the folder of the checkpoint.
func (t title) String() string { return fmt.Sprintf("%016d-%016d-%s", t.step, t.quorumID, t.writer) }

// place is where a file of a checkpoint lies.
type place struct {
	title title
	shard shard
	file  string
}

// parsePlace says which file of which checkpoint has a name; false: it is none.
func parsePlace(name string) (p place, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return p, false
	}
	t, f := titleForm.FindStringSubmatch(parts[0]), folderForm.FindStringSubmatch(parts[1])
	if t == nil || f == nil {
		return p, false
	}
	p.title = title{step: number(t[1]), quorumID: number(t[2]), writer: t[3]}
	p.shard = shard{rank: int(number(f[1])), size: int(number(f[2]))}
	p.file = parts[2]
	return p, p.title.step > 0 && p.shard.rank < p.shard.size
}

// number reads 16 digits at most.
func number(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64) // they are digits, and few
	return n
}
