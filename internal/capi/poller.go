package capi

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Poller is the descriptor of the epoll instance in which the Go runtime has every socket of
// this library, or -1 where the system does not tell. /proc/self/fdinfo of it lists them: so
// the child of a fork can close what it inherited.
func Poller() int {
	r, w, err := os.Pipe()
	if err != nil {
		return -1
	}
	defer r.Close()
	defer w.Close()
	raw, err := r.SyscallConn()
	if err != nil {
		return -1
	}
	poller := -1
	if err := raw.Control(func(fd uintptr) { poller = whoPolls(int(fd)) }); err != nil {
		return -1
	}
	return poller
}

// whoPolls is the epoll instance of this process that has a descriptor; -1: none.
func whoPolls(fd int) int {
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return -1
	}
	for _, link := range links {
		if what, err := os.Readlink(link); err != nil || what != "anon_inode:[eventpoll]" {
			continue
		}
		n, err := strconv.Atoi(filepath.Base(link))
		if err != nil {
			continue
		}
		info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", n))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(info)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "tfd:" && f[1] == strconv.Itoa(fd) {
				return n
			}
		}
	}
	return -1
}
