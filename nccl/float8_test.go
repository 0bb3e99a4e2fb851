package nccl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
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
	bits := map[tensor.DType]func(float64) byte{
		tensor.Float8E4M3: func(v float64) byte { return float8(v, 3, 7, 0x7e) },
		tensor.Float8E5M2: func(v float64) byte { return float8(v, 2, 15, 0x7b) },
	}
	for _, dtype := range tensor.DeviceDTypes() {
		t.Run(dtype.String(), func(t *testing.T) {
			put := bits[dtype]
			w := worldOf(t, f, 2, Options{Library: f.lib})
			w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
				for _, c := range []struct {
					op   tensor.ReduceOp
					want [2]float64
				}{
					{tensor.Sum, [2]float64{3, -1}}, {tensor.Avg, [2]float64{1.5, -0.5}}, {tensor.Product, [2]float64{2, -0.5}},
					{tensor.Min, [2]float64{1, -1.25}}, {tensor.Max, [2]float64{2, 0.25}}, {tensor.PreMulSum, [2]float64{1.5, -0.5}},
				} {
					op, want := c.op, c.want
					mine := [2][2]float64{{1, 0.25}, {2, -1.25}}[rank]
					if op == tensor.Product {
						mine[1] = [2]float64{1, -0.5}[rank]
					}
					host, err := tensor.FromBytes(dtype, []byte{put(mine[0]), put(mine[1])}, 2)
					if err != nil {
						return err
					}
					x := onDevice(t, w.Members[rank].Backend, host)
					if err := g.Do(ctx, &pg.Op{Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Reduce: op, Factor: 0.5}); err != nil {
						return fmt.Errorf("%v: %w", op, err)
					}
					if got := onHost(t, x).Bytes(); !slices.Equal(got, []byte{put(want[0]), put(want[1])}) {
						return fmt.Errorf("%v is %x, want %x %x", op, got, put(want[0]), put(want[1]))
					}
				}
				return nil
			})
			older := worldOf(t, f, 1, Options{Library: old})
			x := onDevice(t, older.Members[0].Backend, tensor.New(dtype, 2))
			if err := older.Groups[0].AllReduce(t.Context(), x, tensor.Sum); !errors.Is(err, pg.ErrUnsupported) ||
				!strings.Contains(err.Error(), "2.24.0") || !strings.Contains(err.Error(), "2.22.3") {
				t.Errorf("sum with NCCL 2.22.3: %v, want ErrUnsupported with both versions", err)
			}
			if err := older.Groups[0].Broadcast(t.Context(), x, 0); err != nil {
				t.Errorf("broadcast with NCCL 2.22.3: %v", err)
			}
			host := tensor.New(dtype, 2)
			sum := &pg.Op{Kind: pg.KindAllReduce, In: []tensor.Tensor{host}, Out: []tensor.Tensor{host}}
			if err := sum.Validate(0, 1); !errors.Is(err, pg.ErrUnsupported) {
				t.Errorf("on the host: %v, want ErrUnsupported", err)
			}
			if err := tensor.Reduce(make([]byte, 1), [][]byte{{0}}, dtype, tensor.Sum, 1, 1); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("tensor.Reduce: %v, want ErrUnsupported", err)
			}
		})
	}
}

// The identity of each op changes no number.
func TestFloat8Identity(t *testing.T) {
	f := open(t)
	w := worldOf(t, f, 2, Options{Library: f.lib})
	for _, dtype := range tensor.DeviceDTypes() {
		for _, op := range []tensor.ReduceOp{tensor.Sum, tensor.Product, tensor.Min, tensor.Max, tensor.PreMulSum} {
			w.Each(func(ctx context.Context, rank int, g *pg.Group) error {
				host := tensor.New(dtype, 3)
				copy(host.Bytes(), []byte{0x3a, 0xba, 0x41})
				want := slices.Clone(host.Bytes())
				if rank == 1 {
					if err := tensor.Identity(host.Bytes(), dtype, op, 1); err != nil {
						return err
					}
				}
				x := onDevice(t, w.Members[rank].Backend, host)
				if err := g.Do(ctx, &pg.Op{Kind: pg.KindAllReduce, In: []tensor.Tensor{x}, Out: []tensor.Tensor{x}, Reduce: op, Factor: 1}); err != nil {
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
