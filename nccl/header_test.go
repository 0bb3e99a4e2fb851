package nccl

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Where NVIDIA's headers are, for the tests of what the compiler cannot check
// for us. scripts/cuda-headers sets the first, and the others with NCCL=1.
const (
	cudaIncludeEnv = "SKERRY_CUDA_INCLUDE" // a folder with cuda.h
	ncclIncludeEnv = "SKERRY_NCCL_INCLUDE" // a folder with nccl.h
	ncclLibraryEnv = "SKERRY_NCCL_LIBRARY" // a libnccl.so.2
)

// What the library sees of our structs is what nccl.h of 2.14 to 2.32 says.
func TestLayout(t *testing.T) {
	var c config
	for name, got := range map[string][2]uintptr{
		"size":          {unsafe.Offsetof(c.size), 0},
		"magic":         {unsafe.Offsetof(c.magic), 8},
		"version":       {unsafe.Offsetof(c.version), 12},
		"blocking":      {unsafe.Offsetof(c.blocking), 16},
		"sizeof config": {unsafe.Sizeof(c), 24}, // ncclConfig_v21400
		"sizeof id":     {unsafe.Sizeof(idByValue{}), 128},
		"sizeof handle": {unsafe.Sizeof(ipcHandleByValue{}), 64},
		"sizeof comm":   {unsafe.Sizeof(comm(0)), unsafe.Sizeof(unsafe.Pointer(nil))},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %d, want %d", name, got[0], got[1])
		}
	}
	d := defaults()
	// A later library takes its defaults for all that came after the version
	// here, and so for the four bytes of padding behind blocking, too, where
	// 2.17 has put cgaClusterSize.
	if d.size != 24 || d.magic != 0xcafebeef || d.version != 21400 || d.blocking != 0 {
		t.Errorf("configuration %+v, want 24 bytes of version 21400, not blocking", d)
	}
}

// A constant of a header, and the version of NCCL that brought it; 0: all have it.
type constant struct {
	value int64
	since Version
}

func always(values map[string]int64) map[string]constant {
	all := make(map[string]constant)
	for name, v := range values {
		all[name] = constant{value: v}
	}
	return all
}

// The constants and the functions of cuda.h are as we call them.
func TestCUDAHeader(t *testing.T) {
	checkHeader(t, includes(t, cudaIncludeEnv), "cuda.h", reflect.TypeFor[cudaFunctions](), always(map[string]int64{
		"CUDA_SUCCESS": cudaSuccess, "CUDA_ERROR_NOT_READY": cudaNotReady,
		"CU_STREAM_NON_BLOCKING": cudaNonBlocking, "CU_EVENT_DISABLE_TIMING": cudaDisableTiming,
		"CU_EVENT_INTERPROCESS": cudaInterprocess, "CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS": cudaIPCLazyPeer,
		"CU_MEMHOSTALLOC_PORTABLE": cudaHostPortable, "CU_MEMHOSTALLOC_DEVICEMAP": cudaHostMapped,
		"CU_STREAM_WAIT_VALUE_GEQ": cudaWaitReached, "sizeof(CUcontext)": int64(unsafe.Sizeof(Context(0))),
		"sizeof(CUdeviceptr)": int64(unsafe.Sizeof(Pointer(0))), "sizeof(CUipcMemHandle)": int64(unsafe.Sizeof(IPCHandle{})),
		"sizeof(CUipcEventHandle)": int64(unsafe.Sizeof(IPCHandle{})),
	}))
}

// So are those of nccl.h.
func TestNCCLHeader(t *testing.T) {
	stubs := t.TempDir() // all that nccl.h needs of the CUDA runtime
	for name, text := range map[string]string{
		"cuda_runtime.h": "#include <stddef.h>\ntypedef struct CUstream_st *cudaStream_t;\ntypedef struct CUevent_st *cudaEvent_t;\n#define CUDART_VERSION 12040\n" +
			"#define __CUDA_BF16_TYPES_EXIST__ 1\n", // without them nccl.h before 2.24 leaves bfloat16 out
		"cuda_fp16.h": "", "cuda_bf16.h": "", "cuda_fp8.h": "",
	} {
		if err := os.WriteFile(filepath.Join(stubs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	constants := always(map[string]int64{
		"ncclSuccess": ncclSuccess, "ncclInProgress": ncclInProgress,
		"sizeof(ncclUniqueId)": int64(unsafe.Sizeof(UniqueID{})), "sizeof(ncclComm_t)": int64(unsafe.Sizeof(comm(0))),
		"ncclInt8": ncclInt8, "ncclUint8": ncclUint8, "ncclInt32": ncclInt32, "ncclUint32": ncclUint32,
		"ncclInt64": ncclInt64, "ncclUint64": ncclUint64, "ncclFloat16": ncclFloat16, "ncclFloat32": ncclFloat32,
		"ncclFloat64": ncclFloat64, "ncclBfloat16": ncclBFloat16,
		"ncclSum": ncclSum, "ncclProd": ncclProd, "ncclMax": ncclMax, "ncclMin": ncclMin, "ncclAvg": ncclAvg,
		"ncclScalarHostImmediate":                    1,
		"__builtin_offsetof(ncclConfig_t, magic)":    int64(unsafe.Offsetof(config{}.magic)),
		"__builtin_offsetof(ncclConfig_t, version)":  int64(unsafe.Offsetof(config{}.version)),
		"__builtin_offsetof(ncclConfig_t, blocking)": int64(unsafe.Offsetof(config{}.blocking)),
	})
	for name, c := range map[string]constant{
		"ncclFloat8e4m3":      {ncclE4M3, 22400},
		"ncclFloat8e5m2":      {ncclE5M2, 22400},
		"NCCL_SPLIT_NOCOLOR":  {noColor, 21800},
		"NCCL_SHRINK_ABORT":   {1, 22700},
		"NCCL_REVOKE_DEFAULT": {0, 22900},
	} {
		constants[name] = c
	}
	text, err := os.ReadFile(filepath.Join(os.Getenv(ncclIncludeEnv), "nccl.h"))
	if err == nil && !bytes.Contains(text, fmt.Appendf(nil, "%#x", uint32(configMagic))) {
		t.Errorf("nccl.h has no magic number %#x", uint32(configMagic))
	}
	checkHeader(t, append(includes(t, ncclIncludeEnv), "-I"+stubs), "nccl.h", reflect.TypeFor[ncclFunctions](), constants)
}

// The real library has every symbol that its version should have, and works as
// far as it does without a GPU: it draws ids, and refuses to go on with an error
// that says why.
func TestRealLibrary(t *testing.T) {
	path := os.Getenv(ncclLibraryEnv)
	if path == "" {
		t.Skipf("%s names no libnccl.so.2 (scripts/cuda-headers with NCCL=1)", ncclLibraryEnv)
	}
	lib, err := OpenLibrary(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range features {
		if has := lib.Has(Feature(i)); has != (lib.Version() >= f.since) {
			t.Errorf("%v has %s: %v, and it came with %v", lib.Version(), f.symbol, has, f.since)
		}
	}
	var a, b UniqueID
	for _, id := range []*UniqueID{&a, &b} {
		if err := lib.check("ncclGetUniqueId", lib.f.uniqueID(id), 0); err != nil {
			t.Fatal(err)
		}
	}
	if a == b {
		t.Error("two ids are the same")
	}
	if _, err := purego.Dlopen("libcuda.so.1", purego.RTLD_LAZY); err == nil {
		return // there may be a GPU: test/gpu is for that
	}
	var raw comm
	cfg := defaults()
	err = lib.check("ncclCommInitRankConfig", lib.f.init(&raw, 1, idByValue{a}, 0, &cfg), raw)
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), "cuda") {
		t.Errorf("init without a GPU: %v, want an error that speaks of CUDA", err)
	}
}

func includes(t *testing.T, env string) []string {
	t.Helper()
	dir := os.Getenv(env)
	if dir == "" {
		t.Skipf("%s names no folder with headers (scripts/cuda-headers)", env)
	}
	return []string{"-I" + dir}
}

// bindings are the symbols of a struct's tags, with the function that each is bound to.
func bindings(t *testing.T, of reflect.Type) map[string]reflect.Type {
	t.Helper()
	bound := make(map[string]reflect.Type)
	for field := range of.Fields() {
		for _, symbol := range strings.Fields(field.Tag.Get("sym")) {
			bound[symbol] = field.Type
		}
	}
	if len(bound) < of.NumField() {
		t.Fatalf("found %d symbols for the %d fields of %v", len(bound), of.NumField(), of)
	}
	return bound
}

// checkHeader has the C compiler assert that constants have those values, and
// that every function that we bind takes as many arguments, of the same sizes,
// as the Go function that is bound to it passes.
func checkHeader(t *testing.T, include []string, header string, functions reflect.Type, constants map[string]constant) {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip(err)
	}
	run := func(source string, args ...string) []byte {
		cmd := exec.Command(gcc, append(append([]string{"-x", "c", "-"}, args...), include...)...)
		cmd.Stdin = strings.NewReader(source)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", gcc, err, said.Bytes())
		}
		return out
	}
	source := fmt.Sprintf("#include <%s>\n", header)
	text := run(source, "-E", "-P")
	version := headerVersion(run(source+"NCCL_VERSION_CODE\n", "-E", "-P"))
	assert := strings.Builder{}
	assert.WriteString(source)
	for name, c := range constants {
		if c.since <= version {
			fmt.Fprintf(&assert, "_Static_assert((%s) == %d, \"%s\");\n", name, c.value, name)
		}
	}
	brought := broughtBy()
	for symbol, f := range bindings(t, functions) {
		if brought[symbol] > version {
			continue
		}
		types, ok := parameters(text, symbol)
		if !ok {
			types, ok = parameters(text, symbol+"_v2") // the header declares the newer one only
		}
		if !ok || len(types) != f.NumIn() {
			t.Errorf("%s: the header declares %v with parameters %v, we pass %d", symbol, ok, types, f.NumIn())
			continue
		}
		for i, c := range types {
			fmt.Fprintf(&assert, "_Static_assert(sizeof(%s) == %d, \"%s, argument %d\");\n", c, f.In(i).Size(), symbol, i+1)
		}
	}
	run(assert.String(), "-fsyntax-only")
}

// broughtBy is the version that brought each function that came after MinVersion.
func broughtBy() map[string]Version {
	all := make(map[string]Version)
	for _, f := range features {
		all[f.symbol] = f.since
	}
	return all
}

// headerVersion is NCCL_VERSION_CODE, which is the last word of a header that was
// preprocessed; the highest there is for a header that has none.
func headerVersion(text []byte) Version {
	words := bytes.Fields(text)
	n, err := strconv.Atoi(string(words[len(words)-1]))
	if err != nil {
		return math.MaxInt
	}
	return Version(n)
}

// parameters are the types that a function takes, by its declaration.
func parameters(header []byte, symbol string) (types []string, ok bool) {
	m := regexp.MustCompile(`[\s*]` + symbol + `\s*\(([^()]*)\)\s*;`).FindSubmatch(header)
	if m == nil {
		return nil, false
	}
	for _, p := range strings.Split(string(m[1]), ",") {
		p = strings.TrimSpace(p)
		if p == "void" || p == "" {
			continue
		}
		if named := regexp.MustCompile(`^(.*[\s*])\w+$`).FindStringSubmatch(p); named != nil {
			p = named[1]
		}
		types = append(types, p)
	}
	return types, true
}
