package place_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/train/place"
)

// env makes an Env of "NAME=value" words; files by their paths.
func env(t *testing.T, host string, files map[string]string, words string) place.Env {
	t.Helper()
	vars := make(map[string]string)
	for _, word := range strings.Fields(words) {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			t.Fatalf("%q is no variable", word)
		}
		vars[name] = value
	}
	return place.Env{
		Var:      func(name string) string { return vars[name] },
		Hostname: func() (string, error) { return host, nil },
		ReadFile: func(path string) ([]byte, error) {
			if text, ok := files[path]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		},
	}
}

const (
	torchrun = "TORCHELASTIC_RUN_ID=run7 RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 GROUP_WORLD_SIZE=2 " +
		"MASTER_ADDR=node-0 MASTER_PORT=29400 TORCHELASTIC_RESTART_COUNT=2 TORCHELASTIC_USE_AGENT_STORE=True "
	srun = "SLURM_JOB_ID=1234567 SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_STEP_NUM_TASKS=5 " +
		"SLURM_STEP_NUM_NODES=3 SLURM_STEP_TASKS_PER_NODE=2(x2),1 SLURM_STEP_NODELIST=gpu[08-10] SLURM_NTASKS=64 SLURM_JOB_NODELIST=gpu[01-99] "
	jsrun = "LSB_JOBID=98765 JSM_NAMESPACE_RANK=2 JSM_NAMESPACE_SIZE=4 JSM_NAMESPACE_LOCAL_RANK=0 LSB_DJOB_RANKFILE=/ranks " +
		"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 "
	mpirun = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=ns1 "
	hydra  = "PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 MASTER_ADDR=10.0.0.9 "
)

var files = map[string]string{
	"/ranks":     "batch1\nc01\nc01\nc02.cluster\nc02.cluster\n",
	"/etc/hosts": "# Kubernetes-managed hosts file.\n127.0.0.1 localhost\n10.2.0.7 train-2.workers.lab.svc.cluster.local train-2\n10.2.0.8\tset-w-1-1.set.lab.svc.cluster.local\tset-w-1-1\n",
}

// Each launcher's variables are read, also within another's.
func TestLaunchers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		host, vars string
		want       place.Place
		method     string
	}{
		"torchrun under srun": {"n1", srun + torchrun, place.Place{
			Launcher: "torchrun", Job: "run7", Restart: 2, WorldSize: 8, Rank: 5, LocalRank: 1, LocalSize: 4, NodeRank: 1, Nodes: 2,
			MasterAddr: "node-0", MasterPort: 29400, AgentStore: true,
		}, "env://?rank=5&world_size=8"},
		"env": {"n1", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=fe80::1 NODE_RANK=1 JOB_ID=j", place.Place{
			Launcher: "env", Job: "j", WorldSize: 2, Rank: 1, NodeRank: 1, MasterAddr: "fe80::1", MasterPort: 29500,
		}, "tcp://[fe80::1]:29500?rank=1&world_size=2"},
		"env, alone": {"n1", "RANK=0 WORLD_SIZE=1", place.Place{
			Launcher: "env", WorldSize: 1, MasterAddr: "127.0.0.1", MasterPort: 29500,
		}, "tcp://127.0.0.1:29500?rank=0&world_size=1"},
		"slurm": {"gpu09", srun, place.Place{
			Launcher: "slurm", Job: "1234567", WorldSize: 5, Rank: 3, LocalRank: 1, LocalSize: 2, NodeRank: 1, Nodes: 3,
			MasterAddr: "gpu08", MasterPort: 19567,
		}, "tcp://gpu08:19567?rank=3&world_size=5"},
		"slurm with pmi2, a later step, a master of its own": {"gpu09", srun + "PMI_RANK=3 PMI_SIZE=5 SLURM_STEP_ID=2 MASTER_ADDR=h", place.Place{
			Launcher: "slurm", Job: "1234567", WorldSize: 5, Rank: 3, LocalRank: 1, LocalSize: 2, NodeRank: 1, Nodes: 3,
			MasterAddr: "h", MasterPort: 15000 + 4567 + 2*97,
		}, "tcp://h:19761?rank=3&world_size=5"},
		"lsf": {"c02", jsrun, place.Place{
			Launcher: "lsf", Job: "98765", WorldSize: 4, Rank: 2, NodeRank: 1, Nodes: 2, MasterAddr: "c01", MasterPort: 18765,
		}, "tcp://c01:18765?rank=2&world_size=4"},
		"open mpi on one host, within an allocation of slurm": {"n1", mpirun + srun, place.Place{
			Launcher: "openmpi", Job: "ns1", WorldSize: 2, Rank: 1, LocalRank: 1, LocalSize: 2, Nodes: 1, MasterAddr: "127.0.0.1", MasterPort: 29500,
		}, "tcp://127.0.0.1:29500?rank=1&world_size=2"},
		"hydra, which srun started": {"n1", hydra + srun, place.Place{
			Launcher: "pmi", WorldSize: 4, Rank: 3, LocalRank: 1, LocalSize: 2, MasterAddr: "10.0.0.9", MasterPort: 29500,
		}, "tcp://10.0.0.9:29500?rank=3&world_size=4"},
		"an indexed Job": {"train-2", "JOB_COMPLETION_INDEX=2 WORLD_SIZE=4", place.Place{
			Launcher: "kubernetes", Job: "train", WorldSize: 4, Rank: 2, LocalSize: 1, NodeRank: 2, Nodes: 4,
			MasterAddr: "train-0.workers.lab.svc.cluster.local", MasterPort: 29500,
		}, "tcp://train-0.workers.lab.svc.cluster.local:29500?rank=2&world_size=4"},
		"a JobSet": {"set-w-1-1", "JOB_COMPLETION_INDEX=1 WORLD_SIZE=4 JOBSET_NAME=set JOB_INDEX=1 PODS_PER_JOB=2", place.Place{
			Launcher: "kubernetes", Job: "set", WorldSize: 4, Rank: 3, LocalSize: 1, NodeRank: 3, Nodes: 4,
			MasterAddr: "set-w-0-0.set.lab.svc.cluster.local", MasterPort: 29500,
		}, "tcp://set-w-0-0.set.lab.svc.cluster.local:29500?rank=3&world_size=4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := place.Find(env(t, c.host, files, c.vars))
			if err != nil || got != c.want {
				t.Fatalf("got  %+v, %v\nwant %+v", got, err, c.want)
			}
			if m := got.Method(); m != c.method {
				t.Errorf("method %s, want %s", m, c.method)
			}
		})
	}
}

// What is wrong is named: the variable, its value, and what is wanted; all at once.
func TestRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("9", place.MaxTextBytes)
	for name, c := range map[string]struct {
		host, vars string
		says       []string
	}{
		"two numbers": {"n", "RANK=8 WORLD_SIZE=8 LOCAL_RANK=x MASTER_ADDR=h MASTER_PORT=70000", []string{
			`RANK = "8", want a number from 0 to 7`, `LOCAL_RANK = "x", want a number`, `MASTER_PORT = "70000", want a number from 1 to 65535`}},
		"no master":  {"n", "RANK=1 WORLD_SIZE=2", []string{`MASTER_ADDR = "", want the name`}},
		"bad master": {"n", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a/b", []string{`MASTER_ADDR = "a/b"`}},
		"relations": {"n", "RANK=3 WORLD_SIZE=4 MASTER_ADDR=h LOCAL_RANK=2 LOCAL_WORLD_SIZE=2 GROUP_RANK=2 GROUP_WORLD_SIZE=2", []string{
			"env says", "LocalRank = 2, want 0 to 1", "NodeRank = 2, want 0 to 1"}},
		"a large world": {"n", "RANK=0 WORLD_SIZE=" + long + " MASTER_ADDR=h", []string{`WORLD_SIZE = "999`, "want a number from 1 to 1048576"}},
		"slurm": {"n", srun + "SLURM_PROCID=-1 SLURM_STEP_NODELIST=a[1-2 SLURM_STEP_TASKS_PER_NODE=2x", []string{
			`SLURM_PROCID = "-1"`, `SLURM_STEP_NODELIST = "a[1-2"`, `SLURM_STEP_TASKS_PER_NODE = "2x", want counts like 2(x3),1`}},
		"slurm, few counts": {"n", srun + "SLURM_STEP_TASKS_PER_NODE=5", []string{"SLURM_STEP_TASKS_PER_NODE", "a count for each node"}},
		"slurm, no size":    {"n", "SLURM_STEP_ID=0 SLURM_PROCID=0", []string{`SLURM_STEP_NUM_TASKS = ""`, `SLURM_LOCALID = ""`, `SLURM_STEP_NODELIST = ""`}},
		"lsf, other host":   {"c03", jsrun, []string{`"c03", is none of the 2 of LSB_DJOB_RANKFILE`}},
		"lsf, no file":      {"c02", jsrun + "LSB_DJOB_RANKFILE=/none", []string{`LSB_DJOB_RANKFILE = "/none": file does not exist`}},
		"mpi elsewhere":     {"n", mpirun + "OMPI_COMM_WORLD_SIZE=9", []string{"MASTER_ADDR is not set", "mpirun -x MASTER_ADDR"}},
		"kubernetes":        {"train-2", "JOB_COMPLETION_INDEX=2", []string{`WORLD_SIZE = "", want a number`}},
		"no subdomain":      {"other-2", "JOB_COMPLETION_INDEX=2 WORLD_SIZE=3", []string{"MASTER_ADDR is not set", `"other-2"`, "headless service"}},
		"JobSet": {"set-w-1-1", "JOB_COMPLETION_INDEX=2 WORLD_SIZE=4 JOBSET_NAME=set JOB_INDEX=3 PODS_PER_JOB=2", []string{
			"JOB_COMPLETION_INDEX = 2, want 0 to PODS_PER_JOB-1, 1", "JOB_INDEX = 3, want at most 1, for 4 pods of 2 each"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := place.Find(env(t, c.host, files, c.vars))
			if err == nil {
				t.Fatalf("got %+v, want an error", p)
			}
			for _, says := range c.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%v\ndoes not say %s", err, says)
				}
			}
			if len(err.Error()) > 2000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// Without a launcher, and in a batch script of Slurm, which is no step, there is no place.
func TestNotLaunched(t *testing.T) {
	t.Parallel()
	for _, vars := range []string{"", "SLURM_JOB_ID=1 SLURM_PROCID=0 SLURM_NTASKS=4", "WORLD_SIZE=4", "LSB_JOBID=4"} {
		if p, err := place.Find(env(t, "n", nil, vars)); !errors.Is(err, place.ErrNotLaunched) {
			t.Errorf("%q: %+v, %v; want ErrNotLaunched", vars, p, err)
		}
	}
}

// A user's own launcher is asked first, and checked like the others.
func TestOwnLauncher(t *testing.T) {
	t.Parallel()
	own := place.Launcher{
		Name:  "grid",
		There: func(e place.Env) bool { return e.Var("GRID_ID") != "" },
		Read: func(e place.Env) (place.Place, error) {
			if e.Var("GRID_ID") == "lost" {
				return place.Place{}, errors.New("GRID_ID = lost, want a number")
			}
			return place.Place{WorldSize: 2, Rank: len(e.Var("GRID_ID")), MasterAddr: "m", MasterPort: 1}, nil
		},
	}
	p, err := place.Find(env(t, "n", nil, torchrun+"GRID_ID=1"), place.Launcher{}, own)
	if want := (place.Place{Launcher: "grid", WorldSize: 2, Rank: 1, MasterAddr: "m", MasterPort: 1}); err != nil || p != want {
		t.Errorf("got %+v, %v, want %+v", p, err, want)
	}
	for vars, says := range map[string]string{"GRID_ID=12": "grid says: Rank = 2", "GRID_ID=lost": "grid says: GRID_ID = lost"} {
		if _, err := place.Find(env(t, "n", nil, vars), own); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", vars, err, says)
		}
	}
}

// FromEnv reads this process's environment.
func TestFromEnv(t *testing.T) {
	for _, word := range strings.Fields(torchrun) {
		name, value, _ := strings.Cut(word, "=")
		t.Setenv(name, value)
	}
	if p, err := place.FromEnv(); err != nil || p.Rank != 5 || p.Master() != "node-0:29400" {
		t.Errorf("got %+v, %v", p, err)
	}
}

// A file that a launcher names is read up to its bound.
func TestFilesAreBounded(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/large"
	if err := os.WriteFile(path, make([]byte, place.MaxTextBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := place.Process().ReadFile(path); err == nil || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("got %v, want an error with the bound", err)
	}
}
