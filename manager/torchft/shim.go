package torchft

import _ "embed" // the shim

// The Python package has a copy.
//go:generate cp skerry_torchft.py ../../python/skerry/_torchft_manager.py

// Shim is skerry_torchft.py, with which a job of torchft's starts
// "skerry torchft-manager" in place of its own manager.
//
//go:embed skerry_torchft.py
var Shim []byte
