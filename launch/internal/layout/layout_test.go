package layout

import (
	"slices"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/train/place"
)

func plan() Plan {
	return Plan{Job: "digits", Ranks: 2, Nodes: 1, MaxRestarts: 10, Lighthouse: []string{"h1:29510", "h2:29510"}}
}

func vars(t *testing.T, all []string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, v := range all {
		name, value, ok := strings.Cut(v, "=")
		if _, twice := out[name]; twice || !ok {
			t.Errorf("%q stands twice, or is no variable, in %q", v, all)
		}
		out[name] = value
	}
	return out
}

// What a rank is told, in torchrun's words, torchft's and ours.
func TestVars(t *testing.T) {
	t.Parallel()
	got := vars(t, plan().Vars(Start{Replica: 2, Replicas: 5, Before: 3, Port: 4711}, 1, "/tmp/e", ""))
	for name, want := range map[string]string{
		"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1",
		"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "4711", "TORCHELASTIC_RUN_ID": "digits", "TORCHELASTIC_RESTART_COUNT": "3",
		"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_ERROR_FILE": "/tmp/e", "REPLICA_GROUP_ID": "2", "NUM_REPLICA_GROUPS": "5",
		"SKERRY_LIGHTHOUSE": "h1:29510,h2:29510", "TORCHFT_LIGHTHOUSE": "http://h1:29510", "SKERRY_JOB": "digits", "SKERRY_SPARE": "",
	} {
		if got[name] != want {
			t.Errorf("%s = %q, want %q", name, got[name], want)
		}
	}
	if _, found := got["CUDA_VISIBLE_DEVICES"]; found {
		t.Error("devices are named though the plan has none")
	}
	p := plan()
	p.TLS = true
	if got := vars(t, p.Vars(Start{}, 0, "", ""))["TORCHFT_LIGHTHOUSE"]; got != "https://h1:29510" {
		t.Errorf("with TLS: %s", got)
	}
}

// A spare has no place, and is told what makes a replica of it.
func TestSpare(t *testing.T) {
	t.Parallel()
	p := plan()
	p.Nodes, p.Node = 3, 2
	s := Start{Replica: 1, Replicas: 9, Before: 3, Port: 4711}
	got := vars(t, p.Vars(s, 1, "", "/run/1"))
	for name, value := range p.Place(s) {
		if is := got[name]; is != "" && name != restartCount {
			t.Errorf("%s = %q before it has a place", name, is)
		}
		got[name] = value
	}
	if got["SKERRY_SPARE"] != "/run/1" || got["MASTER_PORT"] != "4711" || p.SpareName(1) != "spare-5" {
		t.Errorf("%v, named %s", got, p.SpareName(1))
	}
	got["SKERRY_SPARE"] = ""
	for name, value := range vars(t, p.Vars(s, 1, "", "")) {
		if got[name] != value {
			t.Errorf("%s = %q after it was told its place, want %q", name, got[name], value)
		}
	}
}

// What is told is what train/place reads, as torchrun's.
func TestPlaceReadsIt(t *testing.T) {
	t.Parallel()
	got := vars(t, plan().Vars(Start{Replica: 1, Replicas: 3, Before: 3, Port: 4711}, 1, "", ""))
	p, err := place.Find(place.Env{Var: func(name string) string { return got[name] }})
	if err != nil || p.Launcher != "torchrun" || p.Rank != 1 || p.WorldSize != 2 || p.Job != "digits" || p.Restart != 3 || !p.AgentStore || p.Master() != "127.0.0.1:4711" {
		t.Errorf("%+v, %v", p, err)
	}
}

// Each node has its share of the indices, and all know how many there are.
func TestNodes(t *testing.T) {
	t.Parallel()
	p := plan()
	p.Nodes, p.Node = 3, 2
	got := vars(t, p.Vars(Start{Replica: 1, Replicas: 9}, 0, "", ""))
	if got["REPLICA_GROUP_ID"] != "5" || got["NUM_REPLICA_GROUPS"] != "9" || p.Name(1) != "replica-5" {
		t.Errorf("replica %s of %s, named %s; want 5 of 9, replica-5", got["REPLICA_GROUP_ID"], got["NUM_REPLICA_GROUPS"], p.Name(1))
	}
}

// Of any number, the shares of the nodes hold each replica once, and none that is too high; they
// differ by one at most; and those of a smaller number are among those of a larger one.
func TestShares(t *testing.T) {
	t.Parallel()
	for nodes := 1; nodes <= 7; nodes++ {
		for wanted := range 40 {
			var indices []int
			least, most := wanted, 0
			for node := range nodes {
				p := Plan{Nodes: nodes, Node: node}
				share := p.Share(wanted)
				least, most = min(least, share), max(most, share)
				for k := range share {
					indices = append(indices, p.Index(k))
				}
				if more := p.Share(wanted + 1); more != share && (more != share+1 || p.Index(share) != wanted) {
					t.Errorf("node %d of %d has %d of %d, and %d of one more", node, nodes, share, wanted, more)
				}
			}
			slices.Sort(indices)
			for i, index := range indices {
				if i != index {
					t.Fatalf("%d nodes have of %d the replicas %v", nodes, wanted, indices)
				}
			}
			if len(indices) != wanted || most-least > 1 {
				t.Errorf("%d of %d nodes: %d replicas, shares of %d to %d", wanted, nodes, len(indices), least, most)
			}
		}
	}
}

// Replicas on one host share its devices without overlap.
func TestDevices(t *testing.T) {
	t.Parallel()
	p := plan()
	p.CUDADevices = []string{"0", "1", "2", "3", "GPU-a", "GPU-b"}
	for replica, want := range []string{"0,1", "2,3", "GPU-a,GPU-b", ""} {
		if got := vars(t, p.Vars(Start{Slot: replica}, 0, "", ""))["CUDA_VISIBLE_DEVICES"]; got != want {
			t.Errorf("replica %d: %q, want %q", replica, got, want)
		}
	}
}

// Users' own values stay, but for what a start is told; the marks of nested launchers add up.
func TestEnviron(t *testing.T) {
	t.Parallel()
	base := []string{"RANK=7", "HOME=/h", "OMP_NUM_THREADS=8", "HOME=/home", "SKERRY_RUN_MARK=outer"}
	got := vars(t, plan().Environ(base, []string{"RANK=1"}, "inner"))
	for name, want := range map[string]string{
		"RANK": "1", "HOME": "/home", "OMP_NUM_THREADS": "8", "PYTHONUNBUFFERED": "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "SKERRY_RUN_MARK": "outer,inner",
	} {
		if got[name] != want {
			t.Errorf("%s = %q, want %q", name, got[name], want)
		}
	}
	one := plan()
	one.Ranks = 1
	if slices.ContainsFunc(one.Environ(nil, nil, "m"), func(v string) bool { return strings.HasPrefix(v, "OMP_") }) {
		t.Error("one rank is told how many threads it has")
	}
	if got := vars(t, plan().Environ(nil, nil, "m")); got["OMP_NUM_THREADS"] != "1" {
		t.Errorf("two ranks have %q threads, want 1", got["OMP_NUM_THREADS"])
	}
}
