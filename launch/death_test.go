package launch_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerry-ft/skerry/internal/testkit"
	"github.com/skerry-ft/skerry/launch"
)

// offspring is a script whose rank starts three processes that ignore every signal that can
// be ignored, as the worst of data loaders do: one as it is, one in a session of its own, and
// one in a session of its own whose parent is gone. Each writes its process id.
const offspring = `
	deaf='trap "" TERM HUP INT QUIT; echo $$ > pid-$0; while :; do sleep 1000; done'
	sh -c "$deaf" $REPLICA_GROUP_ID-$RANK-a &
	setsid sh -c "$deaf" $REPLICA_GROUP_ID-$RANK-b &
	(setsid sh -c "$deaf" $REPLICA_GROUP_ID-$RANK-c &)
	echo $$ > pid-$REPLICA_GROUP_ID-$RANK-rank
`

// pids waits until n processes have written their ids.
func pids(t *testing.T, dir string, n int) (all []int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d processes have said that they run", n), func() bool {
		files, err := filepath.Glob(filepath.Join(dir, "pid-*"))
		if err != nil {
			t.Fatal(err)
		}
		all = all[:0]
		for _, file := range files {
			text, err := os.ReadFile(file)
			if pid, perr := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && perr == nil {
				all = append(all, pid)
			}
		}
		return len(all) == n
	})
	return all
}

// gone waits until none of some processes lives.
func gone(t *testing.T, all []int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("the processes %v are gone", all), func() bool {
		for _, pid := range all {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err == nil && !strings.Contains(string(text), ") Z ") {
				return false
			}
		}
		return true
	})
}

// A launcher that is killed with SIGKILL leaves nothing behind: not its ranks, though they are
// stopped, nor what they have started.
func TestNothingOutlivesTheLauncher(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"ranks run", "ranks are stopped", "the keeper is killed first"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c, err := json.Marshal(map[string][]string{
				"Command": {"/bin/sh", "-c", "cd " + dir + "\n" + offspring + "\nwhile :; do sleep 1000; done"},
			})
			if err != nil {
				t.Fatal(err)
			}
			tmp := t.TempDir()
			p := testkit.Start(t, "launcher", []string{"TMPDIR=" + tmp}, os.Args[0], "as", "launcher", string(c))
			all := pids(t, dir, 2*2*4)
			switch how {
			case "ranks are stopped":
				for _, pid := range all {
					_ = syscall.Kill(pid, syscall.SIGSTOP) // it lives
				}
			case "the keeper is killed first":
				killKeeper(t, p.PID())
			}
			p.Signal(syscall.SIGKILL)
			p.Exits()
			gone(t, all)
			testkit.Eventually(t, "its temporary files are gone", func() bool {
				left, err := os.ReadDir(tmp)
				return err == nil && len(left) == 0
			})
		})
	}
}

// killKeeper kills the keeper of a launcher, and waits until there is another.
func killKeeper(t *testing.T, launcher int) {
	t.Helper()
	first := keepers(t, launcher)
	if len(first) != 1 {
		t.Fatalf("the launcher has keepers %v, want one", first)
	}
	if err := syscall.Kill(first[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "there is another keeper", func() bool {
		now := keepers(t, launcher)
		return len(now) == 1 && now[0] != first[0]
	})
}

// keepers are a process's children that are called so.
func keepers(t *testing.T, parent int) (out []int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // the thread may have ended
		for _, word := range strings.Fields(string(text)) {
			line, _ := os.ReadFile("/proc/" + word + "/cmdline") // so may the child
			if pid, err := strconv.Atoi(word); err == nil && strings.HasPrefix(string(line), "skerry-keeper") {
				out = append(out, pid)
			}
		}
	}
	return out
}

// What a rank that died leaves behind is gone before its replica starts again: it would hold
// memory, ports and GPUs.
func TestNothingOutlivesAStart(t *testing.T) {
	t.Parallel()
	j := start(t, `
		if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then
			for file in pid-*; do
				if kill -0 $(cat $file) 2> kill-said && ! grep -q ') Z ' /proc/$(cat $file)/stat; then echo "$file lives"; fi
			done
			exit 0
		fi
		`+offspring+`
		while [ ! -s pid-0-0-a ] || [ ! -s pid-0-0-b ] || [ ! -s pid-0-0-c ]; do sleep 0.02; done
		exit 5`, func(c *launch.Config) { c.MaxRestarts = 1 })
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 1")
	if lines := j.out.lines(); len(lines) > 0 {
		t.Errorf("%q", lines)
	}
	if took := report.Took; took <= 0 || took > time.Hour {
		t.Errorf("took %v", took)
	}
}

// What ranks that ended well leave behind is told to end, and has time to write the last of it.
func TestWhatIsLeftMayEnd(t *testing.T) {
	t.Parallel()
	j := start(t, `
		setsid sh -c 'trap "echo uploaded > left; exit 0" TERM; echo > begun; while :; do sleep 0.02; done' > /dev/null 2>&1 &
		`+waitFor("begun"), nil)
	report, err := j.ends(t)
	if err != nil {
		t.Fatal(err)
	}
	want(t, report, "done 0")
	if text, err := os.ReadFile(filepath.Join(j.dir, "left")); err != nil || string(text) != "uploaded\n" {
		t.Errorf("%q, %v", text, err)
	}
}
