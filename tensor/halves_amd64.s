#include "textflag.h"

// Kernels over n elements of 16 bits, a positive multiple of 32.

// ADVANCE goes on with 32 elements: of 4 bytes at DI, of 2 at SI.
#define ADVANCE(name) \
	ADDQ $64, SI; \
	ADDQ $128, DI; \
	SUBQ $32, CX; \
	JA name; \
	VZEROUPPER; \
	RET

// LOADHALVES and LOADBRAINS widen 32 elements.
#define LOADHALVES \
	VCVTPH2PS (SI), Y0; \
	VCVTPH2PS 16(SI), Y1; \
	VCVTPH2PS 32(SI), Y2; \
	VCVTPH2PS 48(SI), Y3

#define LOADBRAINS \
	VPMOVZXWD (SI), Y0; \
	VPMOVZXWD 16(SI), Y1; \
	VPMOVZXWD 32(SI), Y2; \
	VPMOVZXWD 48(SI), Y3; \
	VPSLLD $16, Y0, Y0; \
	VPSLLD $16, Y1, Y1; \
	VPSLLD $16, Y2, Y2; \
	VPSLLD $16, Y3, Y3

#define ADDACC \
	VMOVDQU (DI), Y4; \
	VMOVDQU 32(DI), Y5; \
	VMOVDQU 64(DI), Y6; \
	VMOVDQU 96(DI), Y7; \
	VADDPS Y0, Y4, Y0; \
	VADDPS Y1, Y5, Y1; \
	VADDPS Y2, Y6, Y2; \
	VADDPS Y3, Y7, Y3

#define STOREWIDE \
	VMOVDQU Y0, (DI); \
	VMOVDQU Y1, 32(DI); \
	VMOVDQU Y2, 64(DI); \
	VMOVDQU Y3, 96(DI)

// func widenHalvesAVX2(dst, src unsafe.Pointer, n int)
//
// dst = src, from float16 to float32.
TEXT ·widenHalvesAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
loop:
	LOADHALVES
	STOREWIDE
	ADVANCE(loop)

// func widenBrainsAVX2(dst, src unsafe.Pointer, n int)
//
// dst = src, from bfloat16 to float32.
TEXT ·widenBrainsAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
loop:
	LOADBRAINS
	STOREWIDE
	ADVANCE(loop)

// func addHalvesAVX2(dst, src unsafe.Pointer, n int)
//
// dst += src, float16 to float32.
TEXT ·addHalvesAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
loop:
	LOADHALVES
	ADDACC
	STOREWIDE
	ADVANCE(loop)

// func addBrainsAVX2(dst, src unsafe.Pointer, n int)
//
// dst += src, bfloat16 to float32.
TEXT ·addBrainsAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
loop:
	LOADBRAINS
	ADDACC
	STOREWIDE
	ADVANCE(loop)

// func roundHalvesAVX2(dst, src unsafe.Pointer, n int)
//
// dst = src, from float32 to float16: to nearest, ties to even, whatever the
// control register says.
TEXT ·roundHalvesAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
loop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VCVTPS2PH $0, Y0, (DI)
	VCVTPS2PH $0, Y1, 16(DI)
	VCVTPS2PH $0, Y2, 32(DI)
	VCVTPS2PH $0, Y3, 48(DI)
	ADDQ $128, SI
	ADDQ $64, DI
	SUBQ $32, CX
	JA   loop
	VZEROUPPER
	RET

// ROUND1 rounds x to its upper half: adds 0x7fff (Y8), and the lowest bit that
// stays (Y9 is 1) for a tie. A NaN is cut, and made quiet (Y10).
#define ROUND1(x, t, m) \
	VCMPPS $3, x, x, m; \
	VPSRLD $16, x, t; \
	VPADDD Y8, x, x; \
	VPAND Y9, t, Y11; \
	VPADDD Y11, x, x; \
	VPSRLD $16, x, x; \
	VPOR Y10, t, t; \
	VBLENDVPS m, t, x, x

// func roundBrainsAVX2(dst, src unsafe.Pointer, n int)
//
// dst = src, from float32 to bfloat16.
TEXT ·roundBrainsAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	VPCMPEQD Y9, Y9, Y9
	VPSRLD $17, Y9, Y8
	VPSRLD $31, Y9, Y9
	VPSLLD $6, Y9, Y10
loop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	ROUND1(Y0, Y4, Y5)
	ROUND1(Y1, Y6, Y7)
	ROUND1(Y2, Y4, Y5)
	ROUND1(Y3, Y6, Y7)
	VPACKUSDW Y1, Y0, Y0
	VPACKUSDW Y3, Y2, Y2
	VPERMQ $0xd8, Y0, Y0
	VPERMQ $0xd8, Y2, Y2
	VMOVDQU Y0, (DI)
	VMOVDQU Y2, 32(DI)
	ADDQ $128, SI
	ADDQ $64, DI
	SUBQ $32, CX
	JA   loop
	VZEROUPPER
	RET
