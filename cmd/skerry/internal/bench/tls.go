package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/skerry-ft/skerry/checkpoint"
	"github.com/skerry-ft/skerry/internal/guard"
	"github.com/skerry-ft/skerry/pg/tcp"
	"github.com/skerry-ft/skerry/store"
	"github.com/skerry-ft/skerry/store/certs"
	"github.com/skerry-ft/skerry/tensor"
)

// The envelope: AES-128-GCM takes 0.2 to 0.4 ns a byte of a core that has the
// instructions, once to encrypt and once to decrypt, and what is in the clear is
// copied once more on each side. An all-reduce of n=2 moves each byte of the tensor
// once in each direction, so 25 MiB cost 4 · 12.5 MiB of that over both ranks, twice:
// 30 to 50 ms of processor time on top of what plain TCP takes, half of it at best on
// two cores. A small message costs four calls of AES and two more copies: some µs.
// New edges cost a handshake each, 1 to 2 ms of both sides together.

// The contestants.
const (
	implPlain = "plain"
	implTLS   = "TLS"
)

// opHeal is a fetch of a whole state.
const opHeal = "heal"

// runTLS measures what encryption costs beside the same in the clear: all-reduce
// between hosts, new edges, heals, stores. Each part is a function of its own.
func runTLS(ctx context.Context, o Options, emit emitFunc) (err error) {
	dir, err := os.MkdirTemp("", "skerry-bench-tls-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	files, err := benchCertificates(dir)
	if err != nil {
		return err
	}
	for _, part := range []func(context.Context, Options, store.TLSFiles, emitFunc) error{tlsCollectives, tlsHeals, tlsStores} {
		if err := part(ctx, o, files, emit); err != nil {
			return err
		}
	}
	return nil
}

// benchCertificates makes a CA and a replica's certificate for loopback, in dir.
func benchCertificates(dir string) (store.TLSFiles, error) {
	const life = 24 * time.Hour
	files := store.TLSFiles{
		CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "bench.pem"), Key: filepath.Join(dir, "bench.key"),
	}
	authority, err := guard.NewAuthority(life)
	if err != nil {
		return files, err
	}
	pair, err := authority.Sign(guard.Request{
		Party: guard.Party{Role: guard.Replica}, Name: "bench", Hosts: []string{"127.0.0.1"}, Life: life,
	})
	if err != nil {
		return files, err
	}
	return files, errors.Join(authority.Write(dir), pair.Write(dir, "bench"))
}

// tlsCollectives are all-reduces over the sockets that hosts have between them, and
// the first one of a group all of whose edges are new.
func tlsCollectives(ctx context.Context, o Options, files store.TLSFiles, emit emitFunc) error {
	contest := Contest{Bench: "tls", Unit: "us", Samples: cmp.Or(o.Samples, 10), Warmup: 1, Bandwidth: true}
	kinds := []rankKind{
		{impl: implPlain, Transport: tcp.TransportTCP},
		{impl: implTLS, Transport: tcp.TransportTCP, TLS: &files},
	}
	return withRanks(ctx, o, o.worlds(2), kinds, func(n int, all []Contestant) error {
		var sets []Params
		for _, size := range o.sizes(4<<10, 1<<20, 25<<20, 256<<20) {
			sets = append(sets, Params{"op": opAllReduce, "n": n, "bytes": size})
		}
		return contest.Each(ctx, all, emit, append(sets, Params{"edges": opNew, "n": n})...)
	})
}

// inBoth starts a contestant in the clear and one with the certificates, lends them to
// f, and closes them.
func inBoth(files store.TLSFiles, start func(impl string, t *store.TLS) (Contestant, error), f func([]Contestant) error) (err error) {
	t, err := certs.Open(files)
	if err != nil {
		return err
	}
	var all []Contestant
	defer func() { err = errors.Join(err, closeAll(all)) }()
	for _, kind := range []struct {
		impl string
		tls  *store.TLS
	}{{implPlain, nil}, {implTLS, t}} {
		one, err := start(kind.impl, kind.tls)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	return f(all)
}

// tlsHeals are fetches of whole states from a donor, which reads nothing from a disk.
func tlsHeals(ctx context.Context, o Options, files store.TLSFiles, emit emitFunc) error {
	contest := Contest{Bench: "tls", Unit: "us", Samples: cmp.Or(o.Samples, 10), Warmup: 1, Bandwidth: true}
	for _, size := range o.sizes(256 << 20) {
		state := checkpoint.State{Tensors: map[string]tensor.Tensor{"w": tensor.New(tensor.Float32, int(size/4))}}
		for i, b := 0, state.Tensors["w"].Bytes(); i < len(b); i++ {
			b[i] = byte(i*7 + i>>8) // nothing that a target has already
		}
		start := func(impl string, t *store.TLS) (Contestant, error) { return startFetcher(ctx, impl, t, state) }
		err := inBoth(files, start, func(all []Contestant) error {
			return contest.Each(ctx, all, emit, Params{"op": opHeal, "n": 2, "bytes": size})
		})
		if err != nil {
			return fmt.Errorf("heal of %d bytes: %w", size, err)
		}
	}
	return nil
}

// fetcher is a donor and a target in this process.
type fetcher struct {
	impl          string
	donor, target *checkpoint.HTTP
	state         checkpoint.State
	stop          context.CancelFunc
	ran           chan error
}

// fetched names the state.
const fetched = checkpoint.Version("bench")

func startFetcher(ctx context.Context, impl string, t *store.TLS, state checkpoint.State) (f *fetcher, err error) {
	f = &fetcher{impl: impl, state: state, ran: make(chan error, 1)}
	c := checkpoint.HTTPConfig{Token: []byte("the token of a bench")}
	if t != nil {
		c.TLS = &checkpoint.TLS{Server: t.Server, Client: t.Client}
	}
	if f.donor, err = checkpoint.NewHTTP(c); err != nil {
		return nil, err
	}
	if f.target, err = checkpoint.NewHTTP(c); err != nil {
		return nil, errors.Join(err, f.donor.Close())
	}
	ctx, f.stop = context.WithCancel(ctx)
	go func() { f.ran <- f.donor.Run(ctx) }()
	if err := f.donor.Serve(fetched, func() (checkpoint.State, error) { return state, nil }); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Impl implements Contestant.
func (f *fetcher) Impl() string { return f.impl }

// Sample implements Contestant: the microseconds of one fetch into memory that has
// nothing of it.
func (f *fetcher) Sample(ctx context.Context, _ Params) (float64, error) {
	w := f.state.Tensors["w"]
	into := checkpoint.State{Tensors: map[string]tensor.Tensor{"w": tensor.New(tensor.Float32, len(w.Bytes())/4)}}
	m, err := checkpoint.NewMirror(into, checkpoint.MirrorOptions{})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	_, err = f.target.Fetch(ctx, fetched, []string{f.donor.Metadata()}, m)
	if err == nil {
		err = m.Install(fetched)
	}
	took := time.Since(began)
	if err == nil && string(into.Tensors["w"].Bytes()) != string(w.Bytes()) {
		err = errors.New("what was fetched is not what the donor has")
	}
	return float64(took) / float64(time.Microsecond), err
}

// Close implements Contestant.
func (f *fetcher) Close() error {
	f.stop()
	return errors.Join(f.donor.Close(), f.target.Close(), <-f.ran)
}

// openTLS is that of a worker's arguments, or nil.
func openTLS(files *store.TLSFiles) (*store.TLS, error) {
	if files == nil {
		return nil, nil
	}
	return certs.Open(*files)
}
