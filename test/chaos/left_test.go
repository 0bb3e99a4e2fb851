package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// ownPrefix begins the names of this package's cgroups, and of what it mounts.
const ownPrefix = "skerry-chaos-"

// ownName names something that the kernel keeps beyond this process's end, if that is SIGKILL:
// so it has the process in its name, and removeLeft knows whether it is used.
func ownName(prefix string) string {
	return fmt.Sprintf("%s%d-%08x", prefix, os.Getpid(), rand.Uint32())
}

// owned is what ownName makes.
var owned = regexp.MustCompile(`^(?:skc-|` + ownPrefix + `)([0-9]+)-[0-9a-f]{8}`)

// left tells whether a name is of a process that is no more.
func left(name string) bool {
	m := owned.FindStringSubmatch(name)
	if m == nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", m[1], "stat"))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	state := stat[bytes.LastIndexByte(stat, ')')+1:]
	return bytes.HasPrefix(state, []byte(" Z")) // dead, and its parent has not asked yet
}

const namespaces = "/run/netns"

// cgroupRoots are where newStarving and newTight make theirs.
var cgroupRoots = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory"}

// removeLeft removes the network namespaces, mounts and cgroups of processes of this package
// that are no more. Two may do so at a time.
func removeLeft() error {
	if os.Geteuid() != 0 {
		return nil // such a process could make none
	}
	problems := removeLeftMounts()
	for _, root := range cgroupRoots {
		for _, path := range leftIn(root) {
			if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
				problems = append(problems, err)
			}
		}
	}
	for _, path := range leftIn(namespaces) {
		if err := ip("netns", "del", filepath.Base(path)); exists(path) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// leftIn are the paths of what is left in a folder, which need not exist.
func leftIn(dir string) (paths []string) {
	entries, _ := os.ReadDir(dir) // a machine without it has nothing there
	for _, e := range entries {
		if left(e.Name()) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// removeLeftMounts unmounts, and removes the folders where something was mounted.
func removeLeftMounts() (problems []error) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return []error{err}
	}
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(text)) {
		what, where, _ := strings.Cut(line, " ")
		where, _, _ = strings.Cut(where, " ")
		if !left(what) {
			continue
		}
		where = plain.Replace(where)
		err := unix.Unmount(where, unix.MNT_DETACH)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			continue // another process was first
		}
		if err == nil {
			err = os.Remove(where)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	return problems
}

// What a killed test has left is removed, and what is of a process that runs is not.
func TestRemoveLeft(t *testing.T) {
	t.Parallel()
	ended := exec.CommandContext(t.Context(), "true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	gone := fmt.Sprintf("%d-%08x", ended.Process.Pid, rand.Uint32())
	mine := ownName(ownPrefix)
	unreaped := exec.CommandContext(t.Context(), "true")
	if err := unreaped.Start(); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, unreaped.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if name := fmt.Sprintf("skc-%d-%08x-0", unreaped.Process.Pid, 1); !left(name) {
		t.Errorf("%s, of a process that is dead and not waited for, is left, too", name)
	}
	if err := unreaped.Wait(); err != nil {
		t.Fatal(err)
	}
	if !left(ownPrefix+gone) || !left("skc-"+gone+"-0") || left(mine) || left("skc7434e0f50") || left("skerry-31a855aa") {
		t.Errorf("of %s, %s and names of other forms, only the first one's are left", gone, mine)
	}
	if os.Geteuid() != 0 {
		t.Skip("namespaces, mounts and cgroups take root")
	}
	var paths []string
	for _, root := range cgroupRoots {
		if path := filepath.Join(root, ownPrefix+gone); os.Mkdir(path, 0o755) == nil {
			paths = append(paths, path)
		}
	}
	if err := ip("netns", "add", "skc-"+gone+"-0"); err == nil {
		paths = append(paths, filepath.Join(namespaces, "skc-"+gone+"-0"))
	}
	disk := filepath.Join(t.TempDir(), "a disk")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if unix.Mount(ownPrefix+gone, disk, "tmpfs", 0, "size=1m") == nil {
		paths = append(paths, disk)
	}
	if len(paths) == 0 {
		t.Skip("this machine lets no namespace, mount or cgroup be made")
	}
	if err := removeLeft(); err != nil {
		t.Error(err)
	}
	for _, path := range paths {
		if exists(path) {
			t.Errorf("%s is left", path)
		}
	}
}
