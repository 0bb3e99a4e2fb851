package gpu

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	digitsgpu "github.com/skerry-ft/skerry/examples/digits/gpu"
	"github.com/skerry-ft/skerry/pg/baby"
	"github.com/skerry-ft/skerry/train/spawn"
)

var (
	real     = flag.Bool("gpu.real", false, "use the machine's libcuda and libnccl, with full sizes, instead of the fakes")
	libCUDA  = flag.String("gpu.cuda", "", "path of libcuda.so.1, instead of looking for it")
	libNCCL  = flag.String("gpu.nccl", "", "path of libnccl.so.2, instead of looking for it")
	ranks    = flag.Int("gpu.ranks", 2, "how many ranks: 2 or 4, so that means are exact")
	spread   = flag.Bool("gpu.spread", false, "give each rank a GPU of its own, instead of the first one to all")
	torch    = flag.String("gpu.torch", "", "a python with torch, to measure torch.distributed with NCCL beside us")
	backend  = flag.String("gpu.torch-backend", "nccl", "backend of torch.distributed: nccl, or gloo on the CPU, which only tries out the script")
	quorums  = flag.Int("gpu.quorums", 50, "how often to reconfigure, on real hardware")
	limit    = flag.Duration("gpu.limit", 8*time.Minute, "how long a scenario may take on real hardware; an op may take a quarter of it")
	report   = flag.String("gpu.report", "", "write the results to this file, in markdown")
	revision = flag.String("gpu.commit", "", "commit, for the report")
	command  = flag.String("gpu.command", "", "how this was called, for the report")
)

// workerName is what a rank's process runs, see train/spawn.
const workerName = "skerry/gpu-rank"

func TestMain(m *testing.M) {
	if err := digitsgpu.Register(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	spawn.Register(workerName, work)
	baby.Init() // ranks, and their children, do not come back from here
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "skerry-gpu")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv(scratchEnv, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if *real {
		if found, err = locate(); err != nil {
			fmt.Fprintf(os.Stderr, "no run without both libraries:\n%v\n", err)
			return 1
		}
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if err := writeReport(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
