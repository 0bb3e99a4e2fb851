// Package repair mends what the raft log's own library leaves behind: a log without an index, and
// a part of a segment on a full disk (Filer).
//
// raft-wal v0.4.0 seals a segment when it takes entries back from its end, as a
// follower does whose leader has others, but writes no index for it: what is
// left of the segment can be read by the process that holds it, and by no later
// one, which panics in raft. A server that was killed after that would never
// start again. So the index is made here, from the entries, before the log is
// opened. An index that was written and not yet named in the metadata is made
// again: nothing else is touched.
package repair

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// The frames of a segment file, as raft-wal's format.go has them.
const (
	segmentHeaderBytes = 32
	frameHeaderBytes   = 8
	frameEntry         = 1
	frameIndex         = 2
	frameCommit        = 3
)

// Segments gives an index to the sealed segments in dir that have none.
func Segments(dir string, meta *metadb.BoltMetaDB) error {
	state, err := meta.Load(dir)
	if err != nil {
		return fmt.Errorf("read the raft log's metadata: %w", err)
	}
	repaired := false
	for i := range state.Segments {
		s := &state.Segments[i]
		if s.SealTime.IsZero() || s.IndexStart != 0 || s.MaxIndex < s.BaseIndex {
			continue
		}
		if s.IndexStart, err = indexSegment(filepath.Join(dir, segment.FileName(*s)), *s); err != nil {
			return fmt.Errorf("repair segment %s of the raft log: %w", segment.FileName(*s), err)
		}
		repaired = true
	}
	if !repaired {
		return nil
	}
	return meta.CommitState(state)
}

// indexSegment writes where a segment's entries are behind its end, and returns
// where that is.
func indexSegment(path string, s types.SegmentInfo) (start uint64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	offsets, err := entryOffsets(f, int(s.MaxIndex-s.BaseIndex+1))
	if err != nil {
		return 0, err
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	end = (end + frameHeaderBytes - 1) / frameHeaderBytes * frameHeaderBytes
	index := make([]byte, 0, 4*len(offsets))
	for _, at := range offsets {
		index = binary.LittleEndian.AppendUint32(index, at)
	}
	if _, err := f.WriteAt(index, end); err != nil {
		return 0, err
	}
	return uint64(end), f.Sync()
}

// entryOffsets finds the first n entries of a segment.
func entryOffsets(f io.ReaderAt, n int) ([]uint32, error) {
	var offsets []uint32
	at := int64(segmentHeaderBytes)
	for len(offsets) < n {
		var h [frameHeaderBytes]byte
		if _, err := f.ReadAt(h[:], at); err != nil {
			return nil, fmt.Errorf("read entry %d of %d: %w", len(offsets)+1, n, err)
		}
		size := int64(binary.LittleEndian.Uint32(h[4:]))
		switch h[0] {
		case frameEntry:
			offsets = append(offsets, uint32(at))
		case frameIndex:
		case frameCommit:
			size = 0 // that field is its checksum
		default:
			return nil, fmt.Errorf("%w: entry %d of %d is missing at byte %d", types.ErrCorrupt, len(offsets)+1, n, at)
		}
		at += frameHeaderBytes + (size+frameHeaderBytes-1)/frameHeaderBytes*frameHeaderBytes
	}
	return offsets, nil
}
