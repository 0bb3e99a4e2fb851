package cluster

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	boltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"go.etcd.io/bbolt"
)

// logStores are the candidates for raft's log, each with what closes it.
var logStores = []struct {
	name string
	open func(dir string) (raft.LogStore, raft.StableStore, func() error, error)
}{
	{"memory", func(string) (raft.LogStore, raft.StableStore, func() error, error) {
		s := raft.NewInmemStore()
		return s, s, func() error { return nil }, nil
	}},
	{"raft-wal", func(dir string) (raft.LogStore, raft.StableStore, func() error, error) {
		meta := new(metadb.BoltMetaDB)
		s, err := wal.Open(dir, wal.WithMetaStore(meta))
		return s, s, func() error { return errors.Join(s.Close(), meta.Close()) }, err
	}},
	{"raft-boltdb", func(dir string) (raft.LogStore, raft.StableStore, func() error, error) {
		s, err := boltdb.New(boltdb.Options{Path: filepath.Join(dir, "raft.db"), BoltOptions: &bbolt.Options{NoFreelistSync: true}})
		return s, s, s.Close, err
	}},
}

// nothingFSM takes commands and keeps none.
type nothingFSM struct{}

func (nothingFSM) Apply(*raft.Log) any                 { return nil }
func (nothingFSM) Snapshot() (raft.FSMSnapshot, error) { return snapshot(nil), nil }
func (nothingFSM) Restore(r io.ReadCloser) error       { return r.Close() }

// benchCluster starts three rafts within the process and returns the leader.
func benchCluster(b *testing.B, open func(string) (raft.LogStore, raft.StableStore, func() error, error)) *raft.Raft {
	b.Helper()
	var transports []*raft.InmemTransport
	var servers []raft.Server
	for i := range 3 {
		addr, t := raft.NewInmemTransport("")
		transports = append(transports, t)
		servers = append(servers, raft.Server{ID: raft.ServerID(fmt.Sprint(i)), Address: addr})
	}
	var all []*raft.Raft
	for i, t := range transports {
		for _, o := range transports {
			t.Connect(o.LocalAddr(), o)
		}
		conf := raft.DefaultConfig()
		conf.LocalID, conf.LogOutput = servers[i].ID, io.Discard
		logs, stable, closeStore, err := open(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		snapshots := raft.NewInmemSnapshotStore()
		if err := raft.BootstrapCluster(conf, logs, stable, snapshots, t, raft.Configuration{Servers: servers}); err != nil {
			b.Fatal(err)
		}
		r, err := raft.NewRaft(conf, nothingFSM{}, logs, stable, snapshots, t)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, r)
		b.Cleanup(func() {
			_ = r.Shutdown().Error() // the measurement is over
			_ = closeStore()         // likewise
		})
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		for _, r := range all {
			if r.State() == raft.Leader {
				return r
			}
		}
	}
	b.Fatal("nobody leads")
	return nil
}

// BenchmarkLogStore measures how long a command of 512 bytes takes to be
// committed by three rafts on one machine, with each store for their logs. It
// decides which one servers use: docs/adr/0012. A network is not measured.
func BenchmarkLogStore(b *testing.B) {
	for _, store := range logStores {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("store=%s/callers-per-core=%d", store.name, callers), func(b *testing.B) {
				r := benchCluster(b, store.open)
				command := make([]byte, 512)
				var mu sync.Mutex
				var took []time.Duration
				b.SetParallelism(callers) // per core
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					var mine []time.Duration
					for pb.Next() {
						began := time.Now()
						if err := r.Apply(command, time.Minute).Error(); err != nil {
							b.Error(err)
							return
						}
						mine = append(mine, time.Since(began))
					}
					mu.Lock()
					defer mu.Unlock()
					took = append(took, mine...)
				})
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			})
		}
	}
}
