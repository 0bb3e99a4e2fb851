package torchft

import _ "embed" // the shim

// Shim is skerry_torchft.py, with which a job of torchft's starts
// "skerry torchft-manager" in place of its own manager.
//
//go:embed skerry_torchft.py
var Shim []byte
