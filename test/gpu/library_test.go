package gpu

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/nccl"
)

// scratchEnv tells tests where to put the fake libraries.
const scratchEnv = "SKERRY_GPU_TEST_DIR"

// libraries are the paths of what a run works with.
type libraries struct{ CUDA, NCCL string }

// found are those of the machine: TestMain looks for them, if it is to.
var found libraries

// open gives the libraries of the machine, or builds the fakes; it skips where
// there is no compiler.
func open(t testing.TB) libraries {
	t.Helper()
	if *real {
		return found
	}
	return fakes(t)
}

// fakes builds those of package nccl, once for a run.
func fakes(t testing.TB) libraries {
	t.Helper()
	dir := os.Getenv(scratchEnv)
	l := libraries{filepath.Join(dir, "libcuda.so.1"), filepath.Join(dir, "libnccl.so.2")}
	if _, err := os.Stat(l.NCCL); err == nil {
		return l
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skipf("the fake libraries need gcc: %v", err)
	}
	const source = "../../nccl/testdata/fake/"
	flags := []string{"-std=gnu11", "-O1", "-fPIC", "-pthread"}
	object := filepath.Join(dir, "cuda.o")
	for _, args := range [][]string{
		{"-DcuCtxSetCurrent=fake_primary_set_current", "-DcuCtxGetCurrent=fake_primary_get_current", "-c", "-o", object, source + "cuda.c"},
		{"-shared", "-o", l.CUDA, object, source + "cu.c"},
		{"-shared", "-o", l.NCCL, source + "nccl.c", l.CUDA, "-Wl,-rpath," + dir},
	} {
		args = append(flags, args...)
		if text, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", gcc, args, err, text)
		}
	}
	return l
}

// Where libraries are besides where the system's loader looks. PyTorch brings a
// libnccl of its own, in the environment that it is installed in.
var (
	cudaPlaces = []string{
		"/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1",
		"/usr/lib/wsl/lib/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1",
	}
	ncclPlaces = []string{
		"/usr/lib/x86_64-linux-gnu/libnccl.so.2", "/usr/lib64/libnccl.so.2", "/usr/local/lib/libnccl.so.2",
		"/usr/local/cuda/lib64/libnccl.so.2",
	}
	ncclGlobs = []string{
		"$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
		"$CONDA_PREFIX/lib/libnccl.so.2",
		"$HOME/.local/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
		"/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2",
		"/opt/*/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
		"/opt/*/.venv/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
	}
)

// askPython prints where the NCCL of a python's packages is.
const askPython = `import glob, importlib.util as u
for p in u.find_spec("nvidia.nccl").submodule_search_locations: print(*glob.glob(p + "/lib/libnccl.so.2"), sep="\n")`

// locate finds the real libraries.
func locate() (l libraries, err error) {
	cuda, cudaErr := first(*libCUDA, append([]string{"libcuda.so.1", "libcuda.so"}, cudaPlaces...), func(p string) error {
		_, err := nccl.OpenCUDA(p)
		return err
	})
	candidates := append([]string{"libnccl.so.2", "libnccl.so"}, ncclPlaces...)
	for _, g := range ncclGlobs {
		if name, _, ok := strings.Cut(strings.TrimPrefix(g, "$"), "/"); ok && g[0] == '$' && os.Getenv(name) == "" {
			continue
		}
		g = os.ExpandEnv(g)
		there, err := filepath.Glob(g)
		if err != nil || len(there) == 0 {
			there = []string{g} // so that it is named
		}
		candidates = append(candidates, there...)
	}
	for _, python := range []string{*torch, "python3"} {
		if python == "" {
			continue
		}
		if out, err := exec.Command(python, "-c", askPython).Output(); err == nil {
			candidates = append(candidates, strings.Fields(string(bytes.TrimSpace(out)))...)
		}
	}
	lib, ncclErr := first(*libNCCL, candidates, func(p string) error {
		_, err := nccl.OpenLibrary(p)
		return err
	})
	return libraries{cuda, lib}, errors.Join(cudaErr, ncclErr)
}

// first is the first path that opens; given, if there is one, is the only one
// tried. The error says of each why not.
func first(given string, paths []string, open func(path string) error) (string, error) {
	if given != "" {
		paths = []string{given}
	}
	var why []error
	for _, p := range paths {
		err := open(p)
		if err == nil {
			return p, nil
		}
		why = append(why, err)
	}
	return "", errors.Join(why...)
}

// Without the libraries a real run says what was looked for, and where.
func TestNotFound(t *testing.T) {
	_, err := first("", []string{"/nowhere/libnccl.so.2", "/neither/libnccl.so.2"}, func(p string) error {
		_, err := nccl.OpenLibrary(p)
		return err
	})
	if !errors.Is(err, nccl.ErrUnavailable) {
		t.Fatalf("%v, want ErrUnavailable", err)
	}
	for _, place := range []string{"/nowhere/libnccl.so.2", "/neither/libnccl.so.2"} {
		if !strings.Contains(err.Error(), place) {
			t.Errorf("the error does not name %s:\n%v", place, err)
		}
	}
	if _, err := first("/given/lib.so", []string{"/nowhere"}, func(p string) error { return errors.New("no " + p) }); strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("a path that was given is not the only one tried: %v", err)
	}
}
