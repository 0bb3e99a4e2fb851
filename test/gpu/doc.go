// Package gpu is the test of package nccl on hardware: ranks in processes of
// their own, on one GPU or several, with the machine's libcuda and libnccl. The
// same test runs against the fake libraries where there is no GPU, with small
// sizes, so that only the hardware is left to try.
//
//	go test ./test/gpu                # the fakes
//	make gpu HOST=user@host           # hardware; see scripts/gpu
//
// # How ranks share a GPU
//
// NCCL refuses two ranks of one host on one device. Each rank here is a process
// that starts with a NCCL_HOSTID of its own, which takes the place of host name
// and boot id (getHostHash reads it once a process). So NCCL sees two hosts, and
// takes the network between them: sockets, on the loopback interface
// (NCCL_SOCKET_IFNAME). The two processes' kernels take turns on the device.
//
// # What the fakes cannot show
//
// Each point was held against NVIDIA's headers (cuda.h of CUDA 12.4, nccl.h of
// NCCL 2.14, 2.18, 2.27 and 2.32) and NCCL's sources (init.cc and group.cc of
// 2.17 and of 2.32). TestCUDAHeader, TestNCCLHeader and TestRealLibrary of package
// nccl repeat what can be repeated, with the real libraries: make nccl-real.
//
//   - Signatures. Each function of cuda.h and nccl.h that is bound takes as many
//     arguments, of the same sizes, as we pass (a test derives both sides). Of
//     CUDA's, the versioned names are bound (cuMemAlloc_v2), which 11, 12 and 13
//     all have; the plain names change their meaning.
//   - By value. ncclUniqueId (128 bytes) and the IPC handles (64) are of class
//     MEMORY in the System V ABI: they lie on the stack, whole. purego copies
//     structs there; TestByValue of package nccl compares every byte.
//   - ncclConfig_t. Ours is that of 2.14: 24 bytes, magic 0xcafebeef, version
//     21400. A later library copies as many bytes as size says, and then sets all
//     that came after the version named to its defaults, so that the four bytes of
//     padding (cgaClusterSize since 2.17) are nothing to it.
//   - The handle's memory. ncclCommInitRankConfig that does not block returns
//     while a thread of the library goes on: before 2.18 that reads the handle
//     where we had it put. It was a local variable, which the collector may take;
//     now it lives as long as the communicator. ncclCommSplit and ncclCommShrink
//     write their result from such a thread: that memory is the driver's.
//   - States. Every call on a communicator that does not block may answer
//     ncclInProgress, ncclGroupEnd above all: a thread of the library launches
//     the kernels then. An event that is recorded before the communicator's state
//     is ncclSuccess would be too early. The engine waits for the state first.
//     Destroy and abort block even so (destroyFlag in ncclAsyncLaunch): they have
//     goroutines of their own and a limit.
//   - Errors of init come in two ways: at once, with no communicator, or as the
//     state of one that must then be aborted. Both are seen to.
//   - NCCL_COMM_BLOCKING=1 in the environment overrides our configuration. Calls
//     may block then, until an abort: they are on threads that nothing else needs.
//   - Threads. NCCL asks cudaGetDevice, which answers by the context that is
//     current: Device.Do and the engine lock their threads and make the primary
//     context current. NCCL's own threads call cudaSetDevice, which is the primary
//     context again: another one is a risk (see package nccl/gorgonia).
//     A group's start, calls and end are on one thread: its state is the thread's.
//     NCCL does not allow calls from two threads to communicators of one device at
//     a time; a group and a subgroup on one device have a thread each. Use them
//     one after the other, until they share one.
//   - Memory. What is exchanged must be the device's: everything here is made by
//     cuMemAlloc and filled by copies; no test reads it by its address. Copies are
//     between pageable memory and a stream of their own, and wait for its event;
//     cuMemcpyDtoHAsync to pageable memory returns when it is done, HtoD when the
//     source may be changed.
//   - Streams. Ours do not wait for the default stream, nor it for them: order
//     between streams is by events alone (and by cuStreamWaitValue32 on mapped
//     host memory, for works of other processes). The fake keeps that order, and
//     so would not show a missing event as often as hardware does: TestStreams
//     has fifty rounds of 64 MiB there.
//   - cuMemFree waits for the device, so also for kernels that wait for a peer.
//     Nothing frees memory while a group has ops in flight.
//   - IPC. A handle opens the whole allocation, so a pointer into one needs its
//     offset. Only another process can open it, once a context. The exporter must
//     not free memory that an importer has open (that is undefined): here a Baby's
//     tensors are freed after its group is closed; elsewhere see Backend.Unshare.
//     Containers without shared PID and IPC namespaces may refuse it.
//   - Numbers. NCCL adds in an order of its own, and ncclAvg of floats multiplies
//     by 1/n first. The values here are small integers and powers of two, exact in
//     every dtype and order, so that a comparison of bytes is fair; hence 2 or 4
//     ranks.
//   - A peer that dies is noticed by its closed sockets, as ncclRemoteError in the
//     state of the communicator, or not at all: the report says which. In training
//     the lighthouse's notice ends the wait, as an abort does here.
//   - The environment. getenv of the library sees what the process was started
//     with; Go's os.Setenv need not reach it. Everything NCCL reads is set at the
//     start of a rank.
//   - Carrying. Built with CGO_ENABLED=0 the file needs glibc's loader, libc,
//     libdl and libpthread, of any version of this decade, and nothing else. musl
//     cannot run it.
package gpu
