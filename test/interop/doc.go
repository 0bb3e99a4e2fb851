// Package interop runs torchft's own compiled client, manager and lighthouse,
// as PyPI has them, against ours:
//
//	make interop
//
// fetches the wheels into a cache, loads their extension modules in a Python
// without torch (testdata/torchft.py), and runs these tests once for each.
// Without SKERRY_TORCHFT, which names the modules, all of them are skipped.
package interop
