// Package mesh trains a model that is sharded within replicas and replicated
// over them, on a mesh with one resizable dimension, through the death of a
// whole replica: real processes, real signals, TCP and shared memory.
package mesh
