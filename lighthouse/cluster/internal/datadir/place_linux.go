package datadir

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// place returns that of the lock file.
func (d *Dir) place() (Place, error) {
	var st unix.Statx_t
	err := unix.Statx(int(d.lock.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st)
	if err != nil {
		return Place{}, fmt.Errorf("look at %s: %w", d.lock.Name(), err)
	}
	p := Place{Inode: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		p.BornNs = time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)).UnixNano()
	}
	return p, nil
}
