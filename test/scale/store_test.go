package scale

import (
	"fmt"
	"testing"

	"github.com/skerry-ft/skerry/pg/pgtest"
	"github.com/skerry-ft/skerry/store"
)

// BenchmarkStore: what the store of a meeting takes, both ends together: to look up one address by a
// client that is there, and for a client to come, say its own, and go.
func BenchmarkStore(b *testing.B) {
	ctx, address := b.Context(), pgtest.StartStore(b)
	open := func(prefix string) store.Store {
		st, err := store.Open(ctx, address+"/skerry/"+prefix, store.ClientConfig{})
		if err != nil {
			b.Fatal(err)
		}
		return st
	}
	b.Run("get", func(b *testing.B) {
		st := open("get")
		defer st.Close()
		if err := st.Set(ctx, "tcp/1", make([]byte, 80)); err != nil {
			b.Fatal(err)
		}
		at := processor(b)
		for b.Loop() {
			if _, err := st.Get(ctx, "tcp/1"); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(processor(b)-at)/float64(b.N)/1e3, "cpu-µs/get")
	})
	b.Run("meet", func(b *testing.B) {
		at, i := processor(b), 0
		for b.Loop() {
			st := open("meet")
			if _, err := st.CompareSet(ctx, fmt.Sprintf("tcp/%d", i), nil, make([]byte, 80)); err != nil {
				b.Fatal(err)
			}
			st.Close()
			i++
		}
		b.ReportMetric(float64(processor(b)-at)/float64(b.N)/1e3, "cpu-µs/client")
	})
}
