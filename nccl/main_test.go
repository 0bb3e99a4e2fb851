package nccl

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ebitengine/purego"
	"go.uber.org/goleak"

	"github.com/skerry-ft/skerry/internal/paralleltest"
	"github.com/skerry-ft/skerry/pg/baby"
)

// fakesEnv tells a child process of the tests where its parent has built the
// fake libraries.
const fakesEnv = "SKERRY_NCCL_TEST_FAKES"

// testsAtOnce is how many tests run at a time, unless -parallel says otherwise: those
// that set no fault in this process and count nothing wait for their children.
const testsAtOnce = 4

func TestMain(m *testing.M) {
	if err := Register(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	baby.Init()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "skerry-nccl")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Setenv(fakesEnv, dir)
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	paralleltest.AtOnce(testsAtOnce)
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(abandonedHere()...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// abandonedHere are goroutines in calls of the fake library that never return:
// the tests of hangs make them, as the real ones would.
func abandonedHere() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/skerry-ft/skerry/nccl.withinBeside.func1"),
		goleak.IgnoreAnyFunction("github.com/skerry-ft/skerry/nccl.(*engine).run"),
		goleak.IgnoreAnyFunction("github.com/skerry-ft/skerry/nccl.(*engine).initBy.func1"),
		goleak.IgnoreAnyFunction("github.com/skerry-ft/skerry/nccl.(*engine).initBy.func2"),
	}
}

// fakes are the libraries of testdata/fake, and what only they have.
type fakes struct {
	cuda, nccl string // paths
	driver     *CUDA
	lib        *Library
	fault      func(int32)
	misuse     func() int64
	live       func() int64
	shared     func() int64 // interprocess events that were made here
	gatesOff   func(off int32)
	high       func() int64 // streams of the greatest priority so far
	ops        func() int64 // registered reduce ops
	splits     func() int64 // calls so far
	shrinks    func() int64
	revokes    func() int64
	aborts     func() int64
	joint      func() int64 // groups of calls over several streams
}

// The ways in which the fake library fails.
const (
	wellBehaved = iota
	initCallHangs
	initNeverEnds
	collectiveNeverEnds
	asyncError
	abortHangs
	crash
	callHangs
	initFails
	splitNeverEnds
	revokeHangs
	revokeAwaitsAbort
	callAwaitsAbort
	shrinkFails
	shrinkFailsOne
	abortSleeps
	collectiveAndAbortHang
)

var building sync.Mutex

// build compiles a fake library, or skips the test where there is no compiler.
func build(t testing.TB, out string, args ...string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	out = filepath.Join(os.Getenv(fakesEnv), out)
	if _, err := os.Stat(out); err == nil {
		return out
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skipf("the fake libraries need gcc: %v", err)
	}
	args = append([]string{"-std=gnu11", "-O1", "-fPIC", "-shared", "-pthread", "-o", out}, args...)
	if text, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", gcc, args, err, text)
	}
	return out
}

// buildNCCL compiles a fake libnccl with those definitions.
func buildNCCL(t testing.TB, name string, defines ...string) string {
	cuda := build(t, "libcuda.so.1", "testdata/fake/cuda.c")
	args := append([]string{"testdata/fake/nccl.c", cuda, "-Wl,-rpath," + filepath.Dir(cuda)}, defines...)
	if len(defines) > 0 {
		args = append(args, "-O0") // loaded, hardly run
	}
	return build(t, name, args...)
}

// open builds and loads the fakes. Tests that set a fault here, count calls, or look for
// leaks do not run in parallel with others: the libraries are one for the process.
func open(t testing.TB) *fakes {
	t.Helper()
	f := &fakes{nccl: buildNCCL(t, "libnccl.so.2")}
	f.cuda = filepath.Join(filepath.Dir(f.nccl), "libcuda.so.1")
	var err error
	if f.driver, err = OpenCUDA(f.cuda); err != nil {
		t.Fatal(err)
	}
	if f.lib, err = OpenLibrary(f.nccl); err != nil {
		t.Fatal(err)
	}
	purego.RegisterLibFunc(&f.fault, f.lib.obj.handle, "fake_fault")
	purego.RegisterLibFunc(&f.misuse, f.lib.obj.handle, "fake_misuse")
	purego.RegisterLibFunc(&f.live, f.driver.obj.handle, "fake_live")
	purego.RegisterLibFunc(&f.shared, f.driver.obj.handle, "fake_live_shared")
	purego.RegisterLibFunc(&f.high, f.driver.obj.handle, "fake_high_streams")
	purego.RegisterLibFunc(&f.gatesOff, f.driver.obj.handle, "fake_gates_off")
	for name, counter := range map[string]*func() int64{
		"live_ops": &f.ops, "splits": &f.splits, "shrinks": &f.shrinks, "revokes": &f.revokes, "aborts": &f.aborts,
		"joint_groups": &f.joint,
	} {
		purego.RegisterLibFunc(counter, f.lib.obj.handle, "fake_"+name)
	}
	t.Cleanup(func() {
		f.fault(wellBehaved)
		if n := f.misuse(); n != 0 {
			t.Errorf("%d calls took communicators that had ended", n)
		}
	})
	return f
}

// device opens one until the test ends.
func (f *fakes) device(t testing.TB, index int) *Device {
	t.Helper()
	d, err := OpenDevice(f.driver, index)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close device: %v", err)
		}
	})
	return d
}
