package nccl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/pg"
)

// Eight-bit floats are reduced from NCCL 2.24 on and moved by every version; the
// host has no arithmetic for them.
func TestFloat8(t *testing.T) {
	t.Parallel()
	f := open(t)
	old, err := OpenLibrary(buildNCCL(t, "mid.so", "-DFAKE_NCCL_VERSION=22203"))
	if err != nil {
		t.Fatal(err)
	}
	bits := map[pg.DType]func(float64) byte{
		pg.Float8E4M3DType: func(v float64) byte { return float8(v, 3, 7, 0x7e) },
		pg.Float8E5M2DType: func(v float64) byte { return float8(v, 2, 15, 0x7b) },
	}
	for _, dtype := range pg.DeviceDTypes() {
		t.Run(dtype.String(), func(t *testing.T) {
			put := bits[dtype]
			w := worldOf(t, f, 2, Options{Library: f.lib})
			w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
				for _, c := range []struct {
					op   pg.ReduceOp
					want [2]float64
				}{
					{pg.Sum, [2]float64{3, -1}}, {pg.Avg, [2]float64{1.5, -0.5}}, {pg.Product, [2]float64{2, -0.5}},
					{pg.Min, [2]float64{1, -1.25}}, {pg.Max, [2]float64{2, 0.25}}, {pg.PreMulSum, [2]float64{1.5, -0.5}},
				} {
					op, want := c.op, c.want
					mine := [2][2]float64{{1, 0.25}, {2, -1.25}}[rank]
					if op == pg.Product {
						mine[1] = [2]float64{1, -0.5}[rank]
					}
					host, err := pg.FromBytes(dtype, []byte{put(mine[0]), put(mine[1])}, 2)
					if err != nil {
						return err
					}
					x := onDevice(t, w.Members[rank].Backend, host)
					if err := g.Do(ctx, &pg.Op{Kind: pg.KindAllReduce, In: []pg.Tensor{x}, Out: []pg.Tensor{x}, Reduce: op, Factor: 0.5}); err != nil {
						return fmt.Errorf("%v: %w", op, err)
					}
					if got := onHost(t, x).Bytes(); !slices.Equal(got, []byte{put(want[0]), put(want[1])}) {
						return fmt.Errorf("%v is %x, want %x %x", op, got, put(want[0]), put(want[1]))
					}
				}
				return nil
			})
			older := worldOf(t, f, 1, Options{Library: old})
			x := onDevice(t, older.Members[0].Backend, pg.New(dtype, 2))
			if err := older.Groups[0].AllReduce(t.Context(), x, pg.Sum); !errors.Is(err, pg.ErrUnsupported) ||
				!strings.Contains(err.Error(), "2.24.0") || !strings.Contains(err.Error(), "2.22.3") {
				t.Errorf("sum with NCCL 2.22.3: %v, want ErrUnsupported with both versions", err)
			}
			if err := older.Groups[0].Broadcast(t.Context(), x, 0); err != nil {
				t.Errorf("broadcast with NCCL 2.22.3: %v", err)
			}
			host := pg.New(dtype, 2)
			sum := &pg.Op{Kind: pg.KindAllReduce, In: []pg.Tensor{host}, Out: []pg.Tensor{host}}
			if err := sum.Validate(0, 1); !errors.Is(err, pg.ErrUnsupported) {
				t.Errorf("on the host: %v, want ErrUnsupported", err)
			}
			if err := pg.Reduce(make([]byte, 1), [][]byte{{0}}, dtype, pg.Sum, 1, 1); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("pg.Reduce: %v, want ErrUnsupported", err)
			}
		})
	}
}

// The identity of each op changes no number.
func TestFloat8Identity(t *testing.T) {
	f := open(t)
	w := worldOf(t, f, 2, Options{Library: f.lib})
	for _, dtype := range pg.DeviceDTypes() {
		for _, op := range []pg.ReduceOp{pg.Sum, pg.Product, pg.Min, pg.Max, pg.PreMulSum} {
			w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
				host := pg.New(dtype, 3)
				copy(host.Bytes(), []byte{0x3a, 0xba, 0x41})
				want := slices.Clone(host.Bytes())
				if rank == 1 {
					if err := pg.Identity(host.Bytes(), dtype, op, 1); err != nil {
						return err
					}
				}
				x := onDevice(t, w.Members[rank].Backend, host)
				if err := g.Do(ctx, &pg.Op{Kind: pg.KindAllReduce, In: []pg.Tensor{x}, Out: []pg.Tensor{x}, Reduce: op, Factor: 1}); err != nil {
					return err
				}
				if got := onHost(t, x).Bytes(); !slices.Equal(got, want) {
					return fmt.Errorf("%v of %v with the identity is %x, want %x", op, dtype, got, want)
				}
				return nil
			})
		}
	}
}
