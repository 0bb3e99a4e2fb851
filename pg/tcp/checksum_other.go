//go:build !amd64

package tcp

import "hash/crc32"

// checksum is the CRC32C of p.
func checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }
