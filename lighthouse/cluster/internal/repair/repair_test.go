package repair

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
)

// A log whose end was taken back is read whole after each restart: what was
// kept, and what came after.
func TestLogIsReadAfterItsEndWasTakenBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(f func(*wal.WAL)) {
		t.Helper()
		meta := new(metadb.BoltMetaDB)
		if err := Segments(dir, meta); err != nil {
			t.Fatal(err)
		}
		log, err := wal.Open(dir, wal.WithMetaStore(meta))
		if err != nil {
			t.Fatal(err)
		}
		f(log)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		if err := meta.Close(); err != nil {
			t.Fatal(err)
		}
	}
	want := make(map[uint64]string)
	store := func(log *wal.WAL, term, from, to uint64) {
		t.Helper()
		for i := from; i <= to; i++ {
			want[i] = fmt.Sprintf("entry %d of term %d%s", i, term, bytes.Repeat([]byte("."), int(i*7%50)))
			if err := log.StoreLog(&raft.Log{Index: i, Term: term, Data: []byte(want[i])}); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(log *wal.WAL) {
		t.Helper()
		for i, data := range want {
			var l raft.Log
			if err := log.GetLog(i, &l); err != nil || string(l.Data) != data {
				t.Errorf("entry %d is %q, %v; want %q", i, l.Data, err, data)
			}
		}
	}
	open(func(log *wal.WAL) {
		store(log, 1, 1, 20)
		if err := log.DeleteRange(15, 20); err != nil {
			t.Fatal(err)
		}
		store(log, 2, 15, 30)
		check(log)
	})
	open(func(log *wal.WAL) {
		check(log)
		if err := log.DeleteRange(10, 30); err != nil { // into the repaired segment
			t.Fatal(err)
		}
		for i := uint64(10); i <= 30; i++ {
			delete(want, i)
		}
		store(log, 3, 10, 12)
		check(log)
	})
	open(check)
	open(check)
}
