package frame

import (
	"hash/crc32"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// foldBytes is what foldCRC works in; below minFoldBytes it is not worth the call.
const (
	foldBytes    = 256
	minFoldBytes = 1024
)

// foldCRC updates the inverse of a CRC32C with n bytes at p, a positive multiple
// of foldBytes; see the assembly.
//
//go:noescape
func foldCRC(crc uint32, p unsafe.Pointer, n int) uint32

// canFold tells whether this processor multiplies without carry four words at a time.
func canFold() bool {
	return cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42
}

// Checksum is the CRC32C of p.
func Checksum(p []byte) uint32 {
	if len(p) < minFoldBytes || !canFold() {
		return crc32.Checksum(p, castagnoli)
	}
	n := len(p) / foldBytes * foldBytes
	crc := ^foldCRC(^uint32(0), unsafe.Pointer(unsafe.SliceData(p)), n)
	return crc32.Update(crc, castagnoli, p[n:])
}
