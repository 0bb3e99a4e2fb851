// Package gpu is the test of package nccl on hardware: ranks in processes of
// their own, on one GPU or several, with the machine's libcuda and libnccl. The
// same test runs against the fake libraries where there is no GPU, with small
// sizes, so that only the hardware is left to try.
//
//	go test ./test/gpu                # the fakes
//	make gpu HOST=user@host           # hardware; see scripts/gpu
package gpu
