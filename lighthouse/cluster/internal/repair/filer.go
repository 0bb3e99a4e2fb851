package repair

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// Filer makes and opens the segment files in dir, as raft-wal's own does, but leaves no part of
// one that could not be made.
//
// raft-wal v0.4.0 makes a segment's file, then takes its space. Where the disk is full the file
// stays, and each further try fails because it is there, also when there is space again: the log takes
// nothing more until its process starts anew. Two servers of three that were in this state were
// no majority any more.
func Filer(dir string) types.SegmentFiler {
	return filer{Filer: segment.NewFiler(dir, fs.New()), dir: dir}
}

type filer struct {
	*segment.Filer

	dir string
}

// Create makes a segment's file. What has its name is of a try that failed: an id is never used
// for another segment.
func (f filer) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	name := filepath.Join(f.dir, segment.FileName(info))
	w, err := f.Filer.Create(info)
	if errors.Is(err, os.ErrExist) {
		if err := os.Remove(name); err != nil {
			return nil, err
		}
		w, err = f.Filer.Create(info)
	}
	if err != nil {
		if gone := os.Remove(name); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		return nil, err
	}
	return w, nil
}
