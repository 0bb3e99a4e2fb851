package deploy

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// TestStatic: what README and OPERATIONS call single files without dependencies are that,
// built as they say: no loader is asked for, and no shared library.
func TestStatic(t *testing.T) {
	testkit.Long(t)
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("it builds the programs, and reads Linux's format of them")
	}
	t.Parallel()
	bin := t.TempDir()
	programs := []string{"cmd/lighthouse", "cmd/skerry"} // a trainer opens NCCL's library, if it is there
	args := []string{"build", "-o", bin + string(filepath.Separator)}
	for _, p := range programs {
		args = append(args, "github.com/skerry-ft/skerry/"+p)
	}
	build := exec.CommandContext(t.Context(), "go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
	for _, p := range programs {
		name := filepath.Base(p)
		f, err := elf.Open(filepath.Join(bin, name))
		if err != nil {
			t.Fatal(err)
		}
		libs, err := f.ImportedLibraries()
		if loaded := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }); loaded || len(libs) > 0 || err != nil {
			t.Errorf("%s: wants a loader: %t, libraries: %q, %v; want a static file: does a package need cgo?", p, loaded, libs, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
