//go:build race

package tcp

import "sync/atomic"

// wireOrder is what the race detector knows of the order in which plaintext is read and
// written. A tensor's bytes are encrypted here, and replaced by what a peer answers when it
// has them: the one comes before the other by way of the network, which the detector does
// not see. (In the clear it sees neither: the kernel reads and writes the tensor.)
var wireOrder atomic.Uint64

// encrypted is called when plaintext was read, before its ciphertext is sent.
func encrypted() { wireOrder.Add(1) }

// decrypting is called when ciphertext came, before its plaintext is written.
func decrypting() { wireOrder.Load() }
