package checkpoint_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/checkpoint/ckpttest"
	"github.com/skerry-ft/skerry/tensor"
)

const benchBytes = 256 << 20

func benchState() checkpoint.State {
	s := checkpoint.State{Tensors: map[string]tensor.Tensor{}}
	for i := range 16 {
		s.Tensors[fmt.Sprint("layer", i)] = tensor.New(tensor.Float32, benchBytes/16/4)
	}
	return s
}

// BenchmarkFetch moves a state over loopback, checksummed, donors in the same
// process: beside the target's tensors, and into them. The comparison is
// BenchmarkRawStream: one socket, no checksum.
func BenchmarkFetch(b *testing.B) {
	for _, donors := range []int{1, 2} {
		for _, inPlace := range []bool{false, true} {
			b.Run(fmt.Sprintf("bytes=256MiB/donors=%d/inplace=%t", donors, inPlace), func(b *testing.B) {
				benchFetch(b, donors, inPlace)
			})
		}
	}
}

func benchFetch(b *testing.B, donors int, inPlace bool) {
	states := [2]checkpoint.State{benchState(), benchState()} // what the target has is the other one, all of it
	for _, x := range states[1].Tensors {
		for bytes := x.Bytes(); len(bytes) > 0; bytes = bytes[1:] {
			bytes[0] = 1
		}
	}
	into := benchState()
	var from []*checkpoint.HTTP
	var names []string
	for range donors {
		d := serving(b)
		from, names = append(from, d), append(names, d.Metadata())
	}
	target := serving(b)
	b.SetBytes(benchBytes)
	b.ReportAllocs()
	turn := 1
	for b.Loop() {
		b.StopTimer()
		v := checkpoint.Version(fmt.Sprint(turn))
		for _, d := range from {
			if err := d.Serve(v, ckpttest.Saves(states[turn%2])); err != nil {
				b.Fatal(err)
			}
		}
		turn++
		m, err := checkpoint.NewMirror(into, checkpoint.MirrorOptions{Overwrite: inPlace})
		if err != nil {
			b.Fatal(err)
		}
		m.SetDirect(inPlace)
		b.StartTimer()
		if _, err := target.Fetch(b.Context(), v, names, m); err != nil {
			b.Fatal(err)
		}
		if err := m.Install(v); err != nil {
			b.Fatal(err)
		}
	}
}

func serving(b *testing.B) *checkpoint.HTTP {
	tr, err := checkpoint.NewHTTP(checkpoint.HTTPConfig{})
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() { _ = tr.Run(ctx) })
	b.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return tr
}

// BenchmarkRawStream is the limit: the same bytes over one loopback
// connection, from memory into memory.
func BenchmarkRawStream(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	from, into := make([]byte, benchBytes), make([]byte, benchBytes)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write(from) // a short read fails the benchmark
			conn.Close()
		}
	})
	b.SetBytes(benchBytes)
	for b.Loop() {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, into); err != nil {
			b.Fatal(err)
		}
		conn.Close()
	}
	ln.Close()
}

// BenchmarkMarks is what a heal costs if nothing differs: both sides read their
// memory, once and not at all.
func BenchmarkMarks(b *testing.B) {
	s, d, target := benchState(), serving(b), serving(b)
	if err := d.Serve("v", ckpttest.Saves(s)); err != nil {
		b.Fatal(err)
	}
	into, err := checkpoint.NewMirror(benchState(), checkpoint.MirrorOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(benchBytes)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := target.Fetch(b.Context(), "v", []string{d.Metadata()}, into); err != nil {
			b.Fatal(err)
		}
	}
	if into.Received() > 0 {
		b.Errorf("%d bytes were fetched", into.Received())
	}
}
