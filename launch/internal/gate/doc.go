// Package gate is where the ranks of a spare wait for their place: the launcher's side of what package
// launch describes under Spares; the ranks' side is launch/spare.
//
// Each rank has a Unix socket of its own, of mode 0600, in a folder that its user alone reaches:
// that a connection is there says which rank waits, without a word from it. An order is given once,
// to all ranks; who connects later, such as a process that a rank has started, is told the same.
//
// A Gate has a goroutine for each rank and one for each connection, until Close.
package gate
