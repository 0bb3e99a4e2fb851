#include "textflag.h"

// The constants move a remainder D bits on: x^(D+32) and x^(D-32) modulo the
// polynomial of CRC32C, bits reversed, one to the left. The low word is for the
// first eight bytes of a lane, the high one for the others.
DATA fold2048<>+0(SB)/8, $0xdcb17aa4
DATA fold2048<>+8(SB)/8, $0xb9e02b86
GLOBL fold2048<>(SB), RODATA|NOPTR, $16
DATA fold512<>+0(SB)/8, $0x740eef02
DATA fold512<>+8(SB)/8, $0x9e4addf8
GLOBL fold512<>(SB), RODATA|NOPTR, $16
DATA fold128<>+0(SB)/8, $0xf20c0dfe
DATA fold128<>+8(SB)/8, $0x14cd00bd6
GLOBL fold128<>(SB), RODATA|NOPTR, $16

// func foldCRC(crc uint32, p unsafe.Pointer, n int) uint32
//
// n is a positive multiple of 256. Sixteen remainders of 128 bits go along
// in four registers, each over every sixteenth lane; in the end they are folded
// into one, whose checksum is that of all.
TEXT ·foldCRC(SB), NOSPLIT, $0-28
	MOVL crc+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	VMOVD AX, X4
	VPXORQ Z4, Z0, Z0
	VBROADCASTI32X4 fold2048<>(SB), Z16
	ADDQ $256, SI
	SUBQ $256, CX
	JZ   join

loop:
	VPCLMULQDQ $0x00, Z16, Z0, Z4
	VPCLMULQDQ $0x11, Z16, Z0, Z5
	VPCLMULQDQ $0x00, Z16, Z1, Z6
	VPCLMULQDQ $0x11, Z16, Z1, Z7
	VPCLMULQDQ $0x00, Z16, Z2, Z8
	VPCLMULQDQ $0x11, Z16, Z2, Z9
	VPCLMULQDQ $0x00, Z16, Z3, Z10
	VPCLMULQDQ $0x11, Z16, Z3, Z11
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	VPTERNLOGQ $0x96, Z4, Z5, Z0
	VPTERNLOGQ $0x96, Z6, Z7, Z1
	VPTERNLOGQ $0x96, Z8, Z9, Z2
	VPTERNLOGQ $0x96, Z10, Z11, Z3
	ADDQ $256, SI
	SUBQ $256, CX
	JNZ  loop

join:
	VBROADCASTI32X4 fold512<>(SB), Z16
	VPCLMULQDQ $0x00, Z16, Z0, Z4
	VPCLMULQDQ $0x11, Z16, Z0, Z5
	VPTERNLOGQ $0x96, Z4, Z5, Z1
	VPCLMULQDQ $0x00, Z16, Z1, Z4
	VPCLMULQDQ $0x11, Z16, Z1, Z5
	VPTERNLOGQ $0x96, Z4, Z5, Z2
	VPCLMULQDQ $0x00, Z16, Z2, Z4
	VPCLMULQDQ $0x11, Z16, Z2, Z5
	VPTERNLOGQ $0x96, Z4, Z5, Z3
	VEXTRACTI32X4 $1, Z3, X0
	VEXTRACTI32X4 $2, Z3, X1
	VEXTRACTI32X4 $3, Z3, X2
	VMOVDQU fold128<>(SB), X6
	VPCLMULQDQ $0x00, X6, X3, X4
	VPCLMULQDQ $0x11, X6, X3, X5
	VPXOR X4, X0, X0
	VPXOR X5, X0, X0
	VPCLMULQDQ $0x00, X6, X0, X4
	VPCLMULQDQ $0x11, X6, X0, X5
	VPXOR X4, X1, X1
	VPXOR X5, X1, X1
	VPCLMULQDQ $0x00, X6, X1, X4
	VPCLMULQDQ $0x11, X6, X1, X5
	VPXOR X4, X2, X2
	VPXOR X5, X2, X2
	VMOVQ X2, R8
	VPEXTRQ $1, X2, R9
	XORL AX, AX
	CRC32Q R8, AX
	CRC32Q R9, AX
	MOVL AX, ret+24(FP)
	VZEROUPPER
	RET
