package manager

import (
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/skerry-ft/skerry/pg/debug"
	"github.com/skerry-ft/skerry/pg/trace"
)

// With every collective compared before it runs, and a flight recorder, three
// replicas train through a death; the survivors' dumps tell of it.
func TestTrainInDetail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		dir := t.TempDir()
		w.tune = func(c *Config) {
			c.Debug = debug.New(debug.Config{
				Level: debug.Detail, Log: w.logs,
				Trace: &trace.Config{Entries: 100, Dump: trace.Files(filepath.Join(dir, c.ReplicaID))},
			})
		}
		a, b, c := w.trainer("a").start(1<<40), w.trainer("b").start(1<<40), w.trainer("c").start(1<<40)
		w.reaches(5, a, b, c)
		c.kill()
		w.reaches(a.m.Step()+10, a, b)
		w.agree(a, b, c)
		var groups []trace.Group
		eventually(t, "dumps of both survivors", func() bool {
			files, err := filepath.Glob(dir + "/*.json")
			if err != nil {
				t.Fatal(err)
			}
			dumps, err := trace.ReadFiles(files)
			if err != nil {
				t.Fatal(err)
			}
			groups = trace.Analyse(dumps)
			return len(groups) == 1 && len(groups[0].Dumped) >= 2
		})
		if g := groups[0]; g.Name != "replicate" || len(g.ReplicaIDs) != 3 {
			t.Errorf("dumps are of %s, %d replicas", g.Name, len(g.ReplicaIDs))
		}
	})
}

func TestDebugFromEnv(t *testing.T) {
	for _, name := range []string{debug.EnvTorchLevel, debug.EnvLevel, debug.EnvTraceSize, debug.EnvTorchTrace} {
		t.Setenv(name, "")
	}
	var c Config
	if err := c.debugFromEnv(); err != nil || c.Debug != nil {
		t.Errorf("with nothing set: %v, %v", c.Debug, err)
	}
	t.Setenv(debug.EnvTorchLevel, "DETAIL")
	if err := c.debugFromEnv(); err != nil || c.Debug.Level() != debug.Detail {
		t.Errorf("with DETAIL: %v", err)
	}
	t.Setenv(debug.EnvLevel, "verbose")
	if err := c.debugFromEnv(); err == nil {
		t.Error("a level that is none was taken")
	}
}
