// Package localdir is a durable.Store in a directory of this host, or in one of a network
// file system with atomic renames that outlive a failure (NFS has them).
//
//	dir, err := localdir.New(localdir.Config{Path: "/ckpt/run7"})
//
// Put writes to a file in the directory's ".tmp", syncs it, renames it, and syncs the
// directories that lead to it. So a name holds all of a file or what it held before,
// whatever moment the process or the power fails. What was being written then
// stays in ".tmp", until a New that comes a day later. The last Delete in a folder
// deletes the folder.
//
// A full disk is syscall.ENOSPC, and what was written of the file is deleted. A medium
// that has lost bytes (syscall.EIO) is checkpoint.ErrCorrupt. A disk that hangs holds up
// the call that waits for it, whatever its ctx says: the kernel knows no other way.
//
// There are no goroutines.
package localdir
