#include "go_asm.h"
#include "textflag.h"

// Loads and stores need no alignment. Several registers at a time hide the
// latency; beyond the first-level cache memory is the limit, not these loops.
// Where two operands are named, the first is a, as in the portable twin.

// LOAD4 loads 128 bytes of a, STORE4 stores them to dst and goes on.
#define LOAD4 \
	VMOVDQU (SI), Y0; \
	VMOVDQU 32(SI), Y1; \
	VMOVDQU 64(SI), Y2; \
	VMOVDQU 96(SI), Y3

#define STORE4(name) \
	VMOVDQU Y0, (DI); \
	VMOVDQU Y1, 32(DI); \
	VMOVDQU Y2, 64(DI); \
	VMOVDQU Y3, 96(DI); \
	ADDQ $128, SI; \
	ADDQ $128, DX; \
	ADDQ $128, DI; \
	SUBQ $128, CX; \
	JA name; \
	VZEROUPPER; \
	RET

// EACH is a kernel of one instruction.
#define EACH(name, insn) \
name: \
	LOAD4; \
	insn (DX), Y0, Y0; \
	insn 32(DX), Y1, Y1; \
	insn 64(DX), Y2, Y2; \
	insn 96(DX), Y3, Y3; \
	STORE4(name)

// PICK1 is the smaller or larger of two floats in x and the memory at off:
// the instruction gives its second operand if they are equal or one is a NaN, so
// both orders are joined, which decides between zeros; a NaN wins, the first one.
#define PICK1(off, x, insn, join, cmp, blend) \
	VMOVDQU off(DX), Y4; \
	insn Y4, x, Y5; \
	insn x, Y4, Y6; \
	join Y5, Y6, Y5; \
	cmp $3, Y4, Y4, Y6; \
	blend Y6, Y4, Y5, Y5; \
	cmp $3, x, x, Y6; \
	blend Y6, x, Y5, x

#define PICK(name, insn, join, cmp, blend) \
name: \
	LOAD4; \
	PICK1(0, Y0, insn, join, cmp, blend); \
	PICK1(32, Y1, insn, join, cmp, blend); \
	PICK1(64, Y2, insn, join, cmp, blend); \
	PICK1(96, Y3, insn, join, cmp, blend); \
	STORE4(name)

// WIDE is the smaller or larger of 64-bit integers. Those without a sign are
// compared with the highest bit flipped (Y8; zero for the others).
#define WIDE1(off, x) \
	VMOVDQU off(DX), Y4; \
	VPXOR Y8, x, Y5; \
	VPXOR Y8, Y4, Y6; \
	VPCMPGTQ Y6, Y5, Y5; \
	VPXOR Y9, Y5, Y5; \
	VBLENDVPD Y5, Y4, x, x

#define WIDE(name) \
name: \
	LOAD4; \
	WIDE1(0, Y0); \
	WIDE1(32, Y1); \
	WIDE1(64, Y2); \
	WIDE1(96, Y3); \
	STORE4(name)

// func combineAVX2(code kernelCode, dst, a, b unsafe.Pointer, n int)
//
// dst = a op b over n bytes, a positive multiple of 128. dst may be a or b, or
// overlap neither.
TEXT ·combineAVX2(SB), NOSPLIT, $0-40
	MOVQ code+0(FP), AX
	MOVQ dst+8(FP), DI
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), DX
	MOVQ n+32(FP), CX
	CMPQ AX, $const_addFloat32
	JEQ  addFloat32
	CMPQ AX, $const_addFloat64
	JEQ  addFloat64
	CMPQ AX, $const_mulFloat32
	JEQ  mulFloat32
	CMPQ AX, $const_mulFloat64
	JEQ  mulFloat64
	CMPQ AX, $const_addInt8
	JEQ  addInt8
	CMPQ AX, $const_addInt16
	JEQ  addInt16
	CMPQ AX, $const_addInt32
	JEQ  addInt32
	CMPQ AX, $const_addInt64
	JEQ  addInt64
	CMPQ AX, $const_mulInt16
	JEQ  mulInt16
	CMPQ AX, $const_mulInt32
	JEQ  mulInt32
	CMPQ AX, $const_minInt8
	JEQ  minInt8
	CMPQ AX, $const_maxInt8
	JEQ  maxInt8
	CMPQ AX, $const_minUint8
	JEQ  minUint8
	CMPQ AX, $const_maxUint8
	JEQ  maxUint8
	CMPQ AX, $const_minInt16
	JEQ  minInt16
	CMPQ AX, $const_maxInt16
	JEQ  maxInt16
	CMPQ AX, $const_minUint16
	JEQ  minUint16
	CMPQ AX, $const_maxUint16
	JEQ  maxUint16
	CMPQ AX, $const_minInt32
	JEQ  minInt32
	CMPQ AX, $const_maxInt32
	JEQ  maxInt32
	CMPQ AX, $const_minUint32
	JEQ  minUint32
	CMPQ AX, $const_maxUint32
	JEQ  maxUint32
	CMPQ AX, $const_andBits
	JEQ  andBits
	CMPQ AX, $const_orBits
	JEQ  orBits
	CMPQ AX, $const_xorBits
	JEQ  xorBits
	CMPQ AX, $const_minFloat32
	JEQ  minFloat32
	CMPQ AX, $const_maxFloat32
	JEQ  maxFloat32
	CMPQ AX, $const_minFloat64
	JEQ  minFloat64
	CMPQ AX, $const_maxFloat64
	JEQ  maxFloat64
	CMPQ AX, $const_minInt64
	JEQ  minInt64
	CMPQ AX, $const_maxInt64
	JEQ  maxInt64
	CMPQ AX, $const_minUint64
	JEQ  minUint64
	CMPQ AX, $const_maxUint64
	JEQ  maxUint64
	INT $3 // no such code

	EACH(addFloat32, VADDPS)
	EACH(addFloat64, VADDPD)
	EACH(mulFloat32, VMULPS)
	EACH(mulFloat64, VMULPD)
	EACH(addInt8, VPADDB)
	EACH(addInt16, VPADDW)
	EACH(addInt32, VPADDD)
	EACH(addInt64, VPADDQ)
	EACH(mulInt16, VPMULLW)
	EACH(mulInt32, VPMULLD)
	EACH(minInt8, VPMINSB)
	EACH(maxInt8, VPMAXSB)
	EACH(minUint8, VPMINUB)
	EACH(maxUint8, VPMAXUB)
	EACH(minInt16, VPMINSW)
	EACH(maxInt16, VPMAXSW)
	EACH(minUint16, VPMINUW)
	EACH(maxUint16, VPMAXUW)
	EACH(minInt32, VPMINSD)
	EACH(maxInt32, VPMAXSD)
	EACH(minUint32, VPMINUD)
	EACH(maxUint32, VPMAXUD)
	EACH(andBits, VPAND)
	EACH(orBits, VPOR)
	EACH(xorBits, VPXOR)
	PICK(minFloat32, VMINPS, VORPS, VCMPPS, VBLENDVPS)
	PICK(maxFloat32, VMAXPS, VANDPS, VCMPPS, VBLENDVPS)
	PICK(minFloat64, VMINPD, VORPD, VCMPPD, VBLENDVPD)
	PICK(maxFloat64, VMAXPD, VANDPD, VCMPPD, VBLENDVPD)

minInt64:
	VPXOR Y8, Y8, Y8
	VPXOR Y9, Y9, Y9
	WIDE(minInt64Loop)
maxInt64:
	VPXOR Y8, Y8, Y8
	VPCMPEQQ Y9, Y9, Y9
	WIDE(maxInt64Loop)
minUint64:
	VPCMPEQQ Y8, Y8, Y8
	VPSLLQ $63, Y8, Y8
	VPXOR Y9, Y9, Y9
	WIDE(minUint64Loop)
maxUint64:
	VPCMPEQQ Y8, Y8, Y8
	VPSLLQ $63, Y8, Y8
	VPCMPEQQ Y9, Y9, Y9
	WIDE(maxUint64Loop)

// SCALE computes acc = acc op by over n bytes, a positive multiple of 128.
#define SCALE(name, insn) \
name: \
	VMOVDQU (DI), Y0; \
	VMOVDQU 32(DI), Y1; \
	VMOVDQU 64(DI), Y2; \
	VMOVDQU 96(DI), Y3; \
	insn Y4, Y0, Y0; \
	insn Y4, Y1, Y1; \
	insn Y4, Y2, Y2; \
	insn Y4, Y3, Y3; \
	VMOVDQU Y0, (DI); \
	VMOVDQU Y1, 32(DI); \
	VMOVDQU Y2, 64(DI); \
	VMOVDQU Y3, 96(DI); \
	ADDQ $128, DI; \
	SUBQ $128, CX; \
	JA name; \
	VZEROUPPER; \
	RET

// func mulFloat32AVX2(acc unsafe.Pointer, n int, by float32)
TEXT ·mulFloat32AVX2(SB), NOSPLIT, $0-20
	MOVQ acc+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSS by+16(FP), Y4
	SCALE(loop, VMULPS)

// func divFloat32AVX2(acc unsafe.Pointer, n int, by float32)
TEXT ·divFloat32AVX2(SB), NOSPLIT, $0-20
	MOVQ acc+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSS by+16(FP), Y4
	SCALE(loop, VDIVPS)

// func mulFloat64AVX2(acc unsafe.Pointer, n int, by float64)
TEXT ·mulFloat64AVX2(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSD by+16(FP), Y4
	SCALE(loop, VMULPD)

// func divFloat64AVX2(acc unsafe.Pointer, n int, by float64)
TEXT ·divFloat64AVX2(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSD by+16(FP), Y4
	SCALE(loop, VDIVPD)

// MULADD computes acc = acc + in*by over n bytes, a positive multiple of 128,
// with two roundings, as the portable twin does: no fused multiply-add.
#define MULADD(name, mul, add) \
name: \
	mul (SI), Y4, Y0; \
	mul 32(SI), Y4, Y1; \
	mul 64(SI), Y4, Y2; \
	mul 96(SI), Y4, Y3; \
	VMOVDQU (DI), Y5; \
	VMOVDQU 32(DI), Y6; \
	VMOVDQU 64(DI), Y7; \
	VMOVDQU 96(DI), Y8; \
	add Y0, Y5, Y0; \
	add Y1, Y6, Y1; \
	add Y2, Y7, Y2; \
	add Y3, Y8, Y3; \
	STORE4(name)

// func addScaledFloat32AVX2(acc, in unsafe.Pointer, n int, by float32)
TEXT ·addScaledFloat32AVX2(SB), NOSPLIT, $0-28
	MOVQ acc+0(FP), DI
	MOVQ in+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS by+24(FP), Y4
	MULADD(loop, VMULPS, VADDPS)

// func addScaledFloat64AVX2(acc, in unsafe.Pointer, n int, by float64)
TEXT ·addScaledFloat64AVX2(SB), NOSPLIT, $0-32
	MOVQ acc+0(FP), DI
	MOVQ in+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSD by+24(FP), Y4
	MULADD(loop, VMULPD, VADDPD)
