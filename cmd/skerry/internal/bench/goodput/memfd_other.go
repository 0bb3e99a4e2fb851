//go:build !linux

package goodput

import "errors"

func memfd(string, []byte) (string, error) {
	return "", errors.New("--impl = torchft, want Linux, or --impl skerry")
}
