package datadir

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// place returns that of the lock file.
func (d *Dir) place() (Place, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(d.lock.Fd()), &st); err != nil {
		return Place{}, fmt.Errorf("look at %s: %w", d.lock.Name(), err)
	}
	return Place{Inode: st.Ino, BornNs: st.Btim.Nano()}, nil
}
