//go:build !linux

package pause

import "time"

// sleep makes the goroutine sleep: there is no NCCL here.
func sleep(d time.Duration) { time.Sleep(d) }
