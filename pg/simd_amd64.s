#include "textflag.h"

// Each kernel computes dst = a op b over n bytes, a positive multiple of 128.
// dst may be a or b, or overlap neither. For sums a is the first operand, as in
// the portable twin: that decides which of two NaNs survives.
//
// Loads and stores need no alignment. Four registers at a time hide the latency;
// beyond the first-level cache memory is the limit, not these loops.

// func addFloat32AVX2(dst, a, b unsafe.Pointer, n int)
TEXT ·addFloat32AVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
loop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VADDPS (DX), Y0, Y0
	VADDPS 32(DX), Y1, Y1
	VADDPS 64(DX), Y2, Y2
	VADDPS 96(DX), Y3, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	ADDQ $128, SI
	ADDQ $128, DX
	ADDQ $128, DI
	SUBQ $128, CX
	JA   loop
	VZEROUPPER
	RET

// func addFloat64AVX2(dst, a, b unsafe.Pointer, n int)
TEXT ·addFloat64AVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
loop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VADDPD (DX), Y0, Y0
	VADDPD 32(DX), Y1, Y1
	VADDPD 64(DX), Y2, Y2
	VADDPD 96(DX), Y3, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	ADDQ $128, SI
	ADDQ $128, DX
	ADDQ $128, DI
	SUBQ $128, CX
	JA   loop
	VZEROUPPER
	RET

// func addInt32AVX2(dst, a, b unsafe.Pointer, n int)
TEXT ·addInt32AVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
loop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VPADDD (DX), Y0, Y0
	VPADDD 32(DX), Y1, Y1
	VPADDD 64(DX), Y2, Y2
	VPADDD 96(DX), Y3, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	ADDQ $128, SI
	ADDQ $128, DX
	ADDQ $128, DI
	SUBQ $128, CX
	JA   loop
	VZEROUPPER
	RET

// func addInt64AVX2(dst, a, b unsafe.Pointer, n int)
TEXT ·addInt64AVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
loop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VPADDQ (DX), Y0, Y0
	VPADDQ 32(DX), Y1, Y1
	VPADDQ 64(DX), Y2, Y2
	VPADDQ 96(DX), Y3, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	ADDQ $128, SI
	ADDQ $128, DX
	ADDQ $128, DI
	SUBQ $128, CX
	JA   loop
	VZEROUPPER
	RET

// func minInt32AVX2(dst, a, b unsafe.Pointer, n int)
TEXT ·minInt32AVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
loop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VPMINSD (DX), Y0, Y0
	VPMINSD 32(DX), Y1, Y1
	VPMINSD 64(DX), Y2, Y2
	VPMINSD 96(DX), Y3, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	ADDQ $128, SI
	ADDQ $128, DX
	ADDQ $128, DI
	SUBQ $128, CX
	JA   loop
	VZEROUPPER
	RET

// func maxInt32AVX2(dst, a, b unsafe.Pointer, n int)
TEXT ·maxInt32AVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
loop:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VPMAXSD (DX), Y0, Y0
	VPMAXSD 32(DX), Y1, Y1
	VPMAXSD 64(DX), Y2, Y2
	VPMAXSD 96(DX), Y3, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	ADDQ $128, SI
	ADDQ $128, DX
	ADDQ $128, DI
	SUBQ $128, CX
	JA   loop
	VZEROUPPER
	RET

// The next ones compute acc = acc op by over n bytes, a positive multiple of 128.

// func mulFloat32AVX2(acc unsafe.Pointer, n int, by float32)
TEXT ·mulFloat32AVX2(SB), NOSPLIT, $0-20
	MOVQ acc+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSS by+16(FP), Y4
loop:
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1
	VMOVDQU 64(DI), Y2
	VMOVDQU 96(DI), Y3
	VMULPS Y4, Y0, Y0
	VMULPS Y4, Y1, Y1
	VMULPS Y4, Y2, Y2
	VMULPS Y4, Y3, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	ADDQ $128, DI
	SUBQ $128, CX
	JA   loop
	VZEROUPPER
	RET

// func divFloat32AVX2(acc unsafe.Pointer, n int, by float32)
TEXT ·divFloat32AVX2(SB), NOSPLIT, $0-20
	MOVQ acc+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSS by+16(FP), Y4
loop:
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1
	VMOVDQU 64(DI), Y2
	VMOVDQU 96(DI), Y3
	VDIVPS Y4, Y0, Y0
	VDIVPS Y4, Y1, Y1
	VDIVPS Y4, Y2, Y2
	VDIVPS Y4, Y3, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	ADDQ $128, DI
	SUBQ $128, CX
	JA   loop
	VZEROUPPER
	RET

// func mulFloat64AVX2(acc unsafe.Pointer, n int, by float64)
TEXT ·mulFloat64AVX2(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSD by+16(FP), Y4
loop:
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1
	VMOVDQU 64(DI), Y2
	VMOVDQU 96(DI), Y3
	VMULPD Y4, Y0, Y0
	VMULPD Y4, Y1, Y1
	VMULPD Y4, Y2, Y2
	VMULPD Y4, Y3, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	ADDQ $128, DI
	SUBQ $128, CX
	JA   loop
	VZEROUPPER
	RET

// func divFloat64AVX2(acc unsafe.Pointer, n int, by float64)
TEXT ·divFloat64AVX2(SB), NOSPLIT, $0-24
	MOVQ acc+0(FP), DI
	MOVQ n+8(FP), CX
	VBROADCASTSD by+16(FP), Y4
loop:
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1
	VMOVDQU 64(DI), Y2
	VMOVDQU 96(DI), Y3
	VDIVPD Y4, Y0, Y0
	VDIVPD Y4, Y1, Y1
	VDIVPD Y4, Y2, Y2
	VDIVPD Y4, Y3, Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	ADDQ $128, DI
	SUBQ $128, CX
	JA   loop
	VZEROUPPER
	RET
