package chaos

import (
	"os"
	"syscall"
)

// onRoot tells whether something is on the file system of /.
func onRoot(info os.FileInfo) bool {
	root, err := os.Stat("/")
	if err != nil {
		return true
	}
	a, aok := info.Sys().(*syscall.Stat_t)
	b, bok := root.Sys().(*syscall.Stat_t)
	return !aok || !bok || a.Dev == b.Dev
}
