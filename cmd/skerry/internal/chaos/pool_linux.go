package chaos

import "golang.org/x/sys/unix"

// zfsMagic is not among the kernel's own.
const zfsMagic = 0x2fc12fc1

// pool names the file system of a folder if its room is shared with what is mounted elsewhere, or is
// this host's memory, so that the folder being full means more; else it is "".
func pool(path string) string {
	var is unix.Statfs_t
	if err := unix.Statfs(path, &is); err != nil {
		return "unknown file system"
	}
	return map[uint32]string{
		unix.BTRFS_SUPER_MAGIC: "btrfs", zfsMagic: "zfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs", unix.TMPFS_MAGIC: "tmpfs",
	}[uint32(is.Type)] //nolint:gosec // the kernel's are 32 bits
}
