//go:build mpi && cgo

package mpi

/*
#cgo pkg-config: ompi-c
#include <mpi.h>
#include <stdlib.h>

static int exchange(MPI_Comm c, char *in, int *inN, int *inAt, char *out, int *outN, int *outAt, MPI_Request *r) {
	return MPI_Ialltoallv(in, inN, inAt, MPI_BYTE, out, outN, outAt, MPI_BYTE, c, r);
}
static int barrier(MPI_Comm c, MPI_Request *r) { return MPI_Ibarrier(c, r); }
static int post(MPI_Comm c, int sends, char *b, int n, int peer, int tag, MPI_Request *r) {
	if (sends) return MPI_Isend(b, n, MPI_BYTE, peer, tag, c, r);
	return MPI_Irecv(b, n, MPI_BYTE, peer < 0 ? MPI_ANY_SOURCE : peer, tag, c, r);
}
static int test(MPI_Request *r, int *done, int *source, int *bytes) {
	MPI_Status s;
	int err = MPI_Test(r, done, &s);
	if (err == MPI_SUCCESS && *done) {
		*source = s.MPI_SOURCE;
		MPI_Get_count(&s, MPI_BYTE, bytes);
	}
	return err;
}
static int truncated(int err) {
	int class;
	return MPI_Error_class(err, &class) == MPI_SUCCESS && class == MPI_ERR_TRUNCATE;
}
*/
import "C"

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/skerry-ft/skerry/pg"
	"github.com/skerry-ft/skerry/tensor"
)

// transfer is one op under way: every collective but a barrier is an exchange in which
// each rank sends each other one a part, which may be empty. A barrier is MPI's own: an
// exchange of nothing need not wait for anybody.
type transfer struct {
	op         *pg.Op
	work       *pg.Work // nil once it was given up
	deadline   time.Time
	rank, size int

	in, out         []byte  // C's memory
	counts          []C.int // C's memory: bytes out and at, in and at, per rank
	request         *C.MPI_Request
	source, arrived C.int
}

// maxBytes is what MPI's int counts.
const maxBytes = 1<<31 - 1

// newTransfer copies what op sends to C's memory.
func newTransfer(op *pg.Op, rank, size int) (*transfer, error) {
	t := &transfer{op: op, rank: rank, size: size}
	send, recv := t.layout()
	if total(send) > maxBytes || total(recv) > maxBytes {
		return nil, fmt.Errorf("%w: %v of more than %d bytes", pg.ErrUnsupported, op.Kind, maxBytes)
	}
	t.in, t.out = buffer(total(send)), buffer(total(recv))
	t.counts = unsafe.Slice((*C.int)(C.malloc(C.size_t(4*size)*C.sizeof_int)), 4*size)
	at := 0
	for r := range size {
		t.counts[r], t.counts[size+r] = C.int(len(send[r])), C.int(at)
		at += copy(t.in[at:], send[r])
	}
	at = 0
	for r := range size {
		t.counts[2*size+r], t.counts[3*size+r] = C.int(len(recv[r])), C.int(at)
		at += len(recv[r])
	}
	t.request = (*C.MPI_Request)(C.malloc(C.sizeof_MPI_Request))
	return t, nil
}

func total(parts [][]byte) int {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	return n
}

// join is several tensors as one piece of memory.
func join(ts []tensor.Tensor) []byte {
	if len(ts) == 1 {
		return ts[0].Bytes()
	}
	var all []byte
	for _, t := range ts {
		all = append(all, t.Bytes()...)
	}
	return all
}

// layout is what goes to each rank, and memory as large as what comes from it.
func (t *transfer) layout() (send, recv [][]byte) {
	send, recv = make([][]byte, t.size), make([][]byte, t.size)
	op, root := t.op, t.op.Root == t.rank
	for r := range t.size {
		switch op.Kind {
		case pg.KindAllReduce:
			send[r], recv[r] = join(op.In), join(op.In)
		case pg.KindReduce:
			if r == op.Root {
				send[r] = join(op.In)
			}
			if root {
				recv[r] = join(op.In)
			}
		case pg.KindBroadcast:
			if root {
				send[r] = join(op.In)
			}
			if r == op.Root {
				recv[r] = join(op.Out)
			}
		case pg.KindAllGather:
			send[r], recv[r] = op.In[0].Bytes(), op.Out[r].Bytes()
		case pg.KindGather:
			if r == op.Root {
				send[r] = op.In[0].Bytes()
			}
			if root {
				recv[r] = op.Out[r].Bytes()
			}
		case pg.KindScatter:
			if root {
				send[r] = op.In[r].Bytes()
			}
			if r == op.Root {
				recv[r] = op.Out[0].Bytes()
			}
		case pg.KindReduceScatter:
			send[r], recv[r] = op.In[r].Bytes(), op.Out[0].Bytes()
		case pg.KindAllToAll:
			send[r], recv[r] = op.In[r].Bytes(), op.Out[r].Bytes()
		case pg.KindSend:
			if r == op.Peer {
				send[r] = op.In[0].Bytes()
			}
		}
	}
	if op.Kind == pg.KindRecv {
		recv[0] = op.Out[0].Bytes()
	}
	return send, recv
}

func head(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

// start hands the transfer to MPI.
func (t *transfer) start(comm C.MPI_Comm) error {
	switch t.op.Kind {
	case pg.KindSend:
		return check("MPI_Isend", C.post(comm, 1, head(t.in), C.int(len(t.in)), C.int(t.op.Peer), C.int(t.op.Tag), t.request))
	case pg.KindBarrier:
		return check("MPI_Ibarrier", C.barrier(comm, t.request))
	case pg.KindRecv:
		return check("MPI_Irecv", C.post(comm, 0, head(t.out), C.int(len(t.out)), C.int(t.op.Peer), C.int(t.op.Tag), t.request))
	}
	n := t.size
	return check("MPI_Ialltoallv", C.exchange(comm, head(t.in), &t.counts[0], &t.counts[n],
		head(t.out), &t.counts[2*n], &t.counts[3*n], t.request))
}

// test asks MPI whether it is done.
func (t *transfer) test() (bool, error) {
	var done C.int
	code := C.test(t.request, &done, &t.source, &t.arrived)
	err := check("MPI_Test", code)
	if err != nil && C.truncated(code) != 0 {
		err = fmt.Errorf("%w: received more than %d bytes: %w", pg.ErrMismatch, len(t.out), err)
	}
	return done != 0, err
}

// from is what came from a rank.
func (t *transfer) from(r int) []byte {
	at, n := int(t.counts[3*t.size+r]), int(t.counts[2*t.size+r])
	return t.out[at : at+n]
}

// deliver puts what came into the outputs: copied, or folded in rank order.
func (t *transfer) deliver() error {
	op := t.op
	switch {
	case op.Kind == pg.KindRecv:
		if int(t.arrived) != len(t.out) {
			return fmt.Errorf("%w: received %d bytes, want %d", pg.ErrMismatch, t.arrived, len(t.out))
		}
		op.Source = int(t.source)
		copy(op.Out[0].Bytes(), t.out)
	case op.Kind.Reduces():
		return t.fold()
	case op.Kind == pg.KindBroadcast:
		at := 0
		for _, out := range op.Out {
			at += copy(out.Bytes(), t.from(op.Root)[at:])
		}
	case op.Kind == pg.KindScatter:
		copy(op.Out[0].Bytes(), t.from(op.Root))
	default: // all-gather, gather, all-to-all; nothing for barriers and sends
		for r, out := range op.Out {
			copy(out.Bytes(), t.from(r))
		}
	}
	return nil
}

func (t *transfer) fold() error {
	at := 0
	for _, out := range t.op.Out {
		b := out.Bytes()
		inputs := make([][]byte, t.size)
		for r := range inputs {
			inputs[r] = t.from(r)[at : at+len(b)]
		}
		err := tensor.Reduce(b, inputs, out.DType(), t.op.Reduce, t.op.EffectiveDivisor(t.size), t.op.Factor)
		if err != nil {
			return err
		}
		at += len(b)
	}
	return nil
}

// free gives C's memory back.
func (t *transfer) free() {
	C.free(unsafe.Pointer(head(t.in)))
	C.free(unsafe.Pointer(head(t.out)))
	C.free(unsafe.Pointer(unsafe.SliceData(t.counts)))
	C.free(unsafe.Pointer(t.request))
}
