//go:build !amd64

package frame

import "hash/crc32"

// Checksum is the CRC32C of p.
func Checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }
