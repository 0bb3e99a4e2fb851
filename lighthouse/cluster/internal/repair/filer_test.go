package repair

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// What a try to make a segment has left is in no way of the next one: the log's end is taken back,
// and it goes on, also after a restart.
func TestWhatATryLeftIsTakenAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() (*wal.WAL, func()) {
		t.Helper()
		meta := new(metadb.BoltMetaDB) // which the log's Close leaves open, and locked
		log, err := wal.Open(dir, wal.WithMetaStore(meta), wal.WithSegmentFiler(Filer(dir)))
		if err != nil {
			t.Fatal(err)
		}
		return log, func() {
			t.Helper()
			if err := errors.Join(log.Close(), meta.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	log, done := open()
	for i := range uint64(5) {
		if err := log.StoreLog(&raft.Log{Index: i + 1, Term: 1, Data: []byte("old")}); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(dir, segment.FileName(types.SegmentInfo{BaseIndex: 4, ID: 1}))
	if err := os.WriteFile(left, []byte("a part"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := log.DeleteRange(4, 5); err != nil {
		t.Fatalf("take back the end: %v", err)
	}
	if err := log.StoreLog(&raft.Log{Index: 4, Term: 2, Data: []byte("new")}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var entry raft.Log
		if err := log.GetLog(4, &entry); err != nil || string(entry.Data) != "new" {
			t.Errorf("entry 4 is %q, %v; want what came after", entry.Data, err)
		}
		done()
		log, done = open()
	}
	done()
}

// A segment that cannot be made leaves no file, and the reason is told.
func TestNoPartIsLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	info := types.SegmentInfo{BaseIndex: 4, ID: 1, SizeLimit: 1 << 31} // more than a file may have
	if _, err := Filer(dir).Create(info); err == nil {
		t.Error("a segment of 2 GiB was made")
	}
	if _, err := os.Stat(filepath.Join(dir, segment.FileName(info))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its file is there: %v", err)
	}
}
