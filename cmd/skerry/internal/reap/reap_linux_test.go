package reap

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/skerry-ft/skerry/internal/testkit"
)

// An orphan that has ended is reaped at the third look, and not before: a child that is
// waited for never stays a zombie for so long.
func TestReapsOrphans(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Skipf("this process cannot have orphans: %v", err)
	}
	// It ends when its parent, which could reap it, has.
	const script = `sh -c 'while [ "$(cut -d" " -f4 /proc/$$/stat)" = '$$' ]; do sleep 0.01; done; exit 3' > /dev/null 2>&1 & echo $!`
	text, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	isZombie := func() bool { return slices.Contains(zombies(os.Getpid()), orphan) }
	testkit.Eventually(t, "the orphan is a zombie", isZombie)
	seen := make(map[int]int)
	for i := range looks {
		if !isZombie() {
			t.Fatalf("reaped after %d looks, want %d", i, looks)
		}
		seen = look(seen, zombies(os.Getpid()))
	}
	if isZombie() {
		t.Errorf("a zombie after %d looks: %v", looks, seen)
	}
}

// A process that was no zombie in between begins anew: it is another of the same number.
func TestLooksAreInARow(t *testing.T) {
	t.Parallel()
	seen := look(look(nil, []int{7}), []int{7})
	if seen[7] != 2 {
		t.Errorf("%v, want two looks", seen)
	}
	if seen = look(seen, nil); len(seen) != 0 {
		t.Errorf("%v after it was gone", seen)
	}
}
