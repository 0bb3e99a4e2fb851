// Package safetensors reads and writes states of named tensors as safetensors files: a
// length, a header of JSON, and the tensors' bytes without holes. Nothing that a file holds
// can execute code, and whatever it says is bounded by the constants of this package and
// checked before it is used: lengths, offsets, overlaps, duplicate names, bools.
//
// [Encode] and [Decode] are for whole states, [NewReader] and [DecodeEach] for parts of
// them or tensors that are not known before. A [Layout] is what a header says, a [View] is
// a layout with the memory of its tensors; package checkpoint moves states by them.
//
// Equal states give equal files, byte for byte. complex128 is our extension of the format.
// Source: huggingface/safetensors, "Format".
package safetensors
