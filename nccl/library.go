package nccl

import (
	"fmt"
	"unsafe"

	"github.com/skerry-ft/skerry/pg"
)

// Version is NCCL's: 22203 is 2.22.3.
type Version int

// String is "2.22.3".
func (v Version) String() string {
	if v < 10000 { // before 2.9 the minor number had three digits less
		return fmt.Sprintf("%d.%d.%d", int(v)/1000, int(v)/100%10, int(v)%100)
	}
	return fmt.Sprintf("%d.%d.%d", int(v)/10000, int(v)/100%100, int(v)%100)
}

// MinVersion is the first with non-blocking communicators, without which no
// wait could be ended.
const MinVersion Version = 21400

// Feature is something that not every version of the library has.
type Feature uint8

// The features, with the version that brought them. Source: NVIDIA's NCCL user
// guide, "Communicator Creation and Management Functions", and nccl.h of 2.27.5
// and 2.32.3.
const (
	Split      Feature = iota // 2.18: a communicator from another one's ranks
	RegisterOp                // 2.11: premul-sum
	Shrink                    // 2.27: a communicator without the dead ranks
	Revoke                    // 2.29: stop what is in flight, and keep the communicator
	SmallFloat                // 2.24: float8 of both kinds
	RAS                       // 2.24: the service that tells how a job is
	featureCount
)

// features have a name for errors, the first version, and a symbol to look for there.
var features = [featureCount]struct {
	name   string
	since  Version
	symbol string
}{
	Split:      {"split", 21800, "ncclCommSplit"},
	RegisterOp: {"premul-sum", 21100, "ncclRedOpCreatePreMulSum"},
	Shrink:     {"shrink", 22700, "ncclCommShrink"},
	Revoke:     {"revoke", 22900, "ncclCommRevoke"},
	SmallFloat: {"float8", 22400, "ncclFloat8e4m3"},
	RAS:        {"RAS", 22400, "NCCL_RAS_ADDR"},
}

// UniqueID names a communicator to be; rank 0 draws it and the others get it
// through the store.
type UniqueID [128]byte

// idByValue is an id as C passes it: purego takes no arrays.
type idByValue struct{ bytes UniqueID }

// comm is an ncclComm_t.
type comm uintptr

// Results of nccl.h.
const (
	ncclSuccess    = 0
	ncclInProgress = 7
)

// config is the part of ncclConfig_t that 2.14 knows. The library reads no more
// than size says, and takes its defaults for the rest.
type config struct {
	size     uint64
	magic    uint32
	version  uint32
	blocking int32
	_        int32
}

const configMagic = 0xcafebeef

// Library is libnccl, loaded at run time. Safe for concurrent use, as the
// library is.
type Library struct {
	obj     *object
	version Version
	has     [featureCount]bool // the symbols of a feature
	f       ncclFunctions
}

type ncclFunctions struct {
	getVersion    func(v *int32) int32                                                                `sym:"ncclGetVersion"`
	errorString   func(code int32) string                                                             `sym:"ncclGetErrorString"`
	lastError     func(c comm) string                                                                 `sym:"ncclGetLastError"`
	uniqueID      func(id *UniqueID) int32                                                            `sym:"ncclGetUniqueId"`
	init          func(c *comm, ranks int32, id idByValue, rank int32, cfg *config) int32             `sym:"ncclCommInitRankConfig"`
	finalize      func(c comm) int32                                                                  `sym:"ncclCommFinalize"`
	destroy       func(c comm) int32                                                                  `sym:"ncclCommDestroy"`
	abort         func(c comm) int32                                                                  `sym:"ncclCommAbort"`
	asyncError    func(c comm, code *int32) int32                                                     `sym:"ncclCommGetAsyncError"`
	groupStart    func() int32                                                                        `sym:"ncclGroupStart"`
	groupEnd      func() int32                                                                        `sym:"ncclGroupEnd"`
	allReduce     func(in, out uintptr, count uint64, dtype, op int32, c comm, s uintptr) int32       `sym:"ncclAllReduce"`
	reduce        func(in, out uintptr, count uint64, dtype, op, root int32, c comm, s uintptr) int32 `sym:"ncclReduce"`
	broadcast     func(in, out uintptr, count uint64, dtype, root int32, c comm, s uintptr) int32     `sym:"ncclBroadcast"`
	allGather     func(in, out uintptr, count uint64, dtype int32, c comm, s uintptr) int32           `sym:"ncclAllGather"`
	reduceScatter func(in, out uintptr, count uint64, dtype, op int32, c comm, s uintptr) int32       `sym:"ncclReduceScatter"`
	send          func(in uintptr, count uint64, dtype, peer int32, c comm, s uintptr) int32          `sym:"ncclSend"`
	recv          func(out uintptr, count uint64, dtype, peer int32, c comm, s uintptr) int32         `sym:"ncclRecv"`

	preMulSum func(op *int32, scalar unsafe.Pointer, dtype, residence int32, c comm) int32     `sym:"ncclRedOpCreatePreMulSum" optional:"true"`
	destroyOp func(op int32, c comm) int32                                                     `sym:"ncclRedOpDestroy" optional:"true"`
	split     func(c comm, color, key int32, out *comm, cfg *config) int32                     `sym:"ncclCommSplit" optional:"true"`
	shrink    func(c comm, exclude *int32, n int32, out *comm, cfg *config, flags int32) int32 `sym:"ncclCommShrink" optional:"true"`
	revoke    func(c comm, flags int32) int32                                                  `sym:"ncclCommRevoke" optional:"true"`
}

// OpenLibrary loads libnccl: the first of paths, or the names that the system
// knows. It fails with ErrUnavailable if there is none, if it is older than
// MinVersion, or if it lacks a symbol.
func OpenLibrary(paths ...string) (*Library, error) {
	if len(paths) == 0 {
		paths = []string{"libnccl.so.2", "libnccl.so"}
	}
	obj, err := openObject("NCCL (libnccl)", paths)
	if err != nil {
		return nil, err
	}
	l := &Library{obj: obj}
	f := &l.f
	missing := obj.bindAll(f)
	if f.getVersion == nil || f.errorString == nil {
		return nil, missing
	}
	var v int32
	if code := f.getVersion(&v); code != ncclSuccess {
		return nil, fmt.Errorf("%w: %s: ncclGetVersion: %s", ErrUnavailable, obj.path, f.errorString(code))
	}
	l.version = Version(v)
	if l.version < MinVersion {
		return nil, fmt.Errorf("%w: %s is NCCL %v, want %v or later", ErrUnavailable, obj.path, l.version, MinVersion)
	}
	if missing != nil {
		return nil, missing
	}
	l.has = [featureCount]bool{
		Split: f.split != nil, RegisterOp: f.preMulSum != nil && f.destroyOp != nil, Shrink: f.shrink != nil, Revoke: f.revoke != nil,
		SmallFloat: true, // a number: no symbol
		RAS:        true, // a socket
	}
	return l, nil
}

// Version is that of the library.
func (l *Library) Version() Version { return l.version }

// Path is where it was found.
func (l *Library) Path() string { return l.obj.path }

// Has tells whether the library has a feature. A symbol that is missing, though the
// version should have it, is a feature that is missing.
func (l *Library) Has(f Feature) bool {
	return f < featureCount && l.has[f] && l.version >= features[f].since
}

// need is the error of a feature that is not there.
func (l *Library) need(f Feature) error {
	if l.Has(f) {
		return nil
	}
	return fmt.Errorf("%w: %s needs NCCL %v (%s), %s is %v",
		pg.ErrUnsupported, features[f].name, features[f].since, features[f].symbol, l.obj.path, l.version)
}

// ResultError is a result of libnccl other than success.
type ResultError struct {
	Func string
	Code int32
	Text string
	Last string // what the library says of the last error in this process
}

func (e *ResultError) Error() string {
	s := fmt.Sprintf("%s: %s (%d)", e.Func, e.Text, e.Code)
	if e.Last != "" {
		s += ": " + e.Last
	}
	return s
}

// check turns a result into an error. ncclInProgress is none: the communicator
// tells later.
func (l *Library) check(name string, code int32, c comm) error {
	if code == ncclSuccess || code == ncclInProgress {
		return nil
	}
	return &ResultError{Func: name, Code: code, Text: l.f.errorString(code), Last: l.f.lastError(c)}
}

// defaults is the configuration of all our communicators.
func defaults() config {
	return config{size: uint64(unsafe.Sizeof(config{})), magic: configMagic, version: uint32(MinVersion), blocking: 0}
}
