// Package store is the rendezvous key-value store: how ranks of one quorum
// find each other. There are four implementations of [Store]: [Hash] (memory),
// [File] (one file and fcntl locks), [Client] (TCP; speaks PyTorch's TCPStore
// protocol to [Server] or to PyTorch's own), and [WithPrefix] (a namespace of
// any other). [Open] reads an address: "host:port/prefix", "[v6]:port/prefix".
//
// # Semantics
//
// Keys are at most MaxKeyBytes, values at most MaxValueBytes. Get and Wait
// block until the key is there, ctx ends, or the store's default timeout (300 s,
// SetTimeout) has passed; then the error satisfies
// errors.Is(err, context.DeadlineExceeded). Add keeps a decimal number; add on
// a key that holds anything else is ErrNotNumber, and so is, with [StrictAdd],
// add on any key that was set. CompareSet, queues and the
// rest follow docs of torch.distributed's stores. A key whose queue is not
// empty counts as there; its value, if it was never set, is empty.
//
// All stores are safe for concurrent use: a call that blocks does not hold up
// others of the same store.
//
// # Guarded servers
//
// A [Server] with ServerConfig.Guarded asks every client for a token, which
// Allow and Forget name while it runs: so each quorum has its own, good for
// its own prefix only, and the members of an old quorum are out the moment
// their token is forgotten. Tokens are proved, not sent. A server that is not
// guarded takes PyTorch's clients too (of 2.4 and later; what begins with
// another handshake is refused).
//
// # TLS
//
// A server with ServerConfig.TLS and a client with ClientConfig.TLS speak TLS 1.3, and
// nothing else. Both show certificates; the server checks the client's, by the CA,
// its role and its job, before it reads the greeting, and the token is proved inside:
// a certificate says that a client is a replica, the token that it is of the quorum.
// Certificates are looked up anew for each connection. Package store/certs makes a
// [TLS] of files or of the environment.
//
// A plain client of a server with TLS, and a client with TLS of a plain server, end
// with [ErrTLS] and what to set. PyTorch's clients and servers speak no TLS: what
// they are to reach has none (`skerry store` without certificates).
//
// What was said before TLS is over is bounded: 16 KiB, within the time of the
// greeting, on the place of a client whose greeting is not over.
//
// # Ordering
//
// A call that has returned has happened: what it wrote is seen by every call
// of anybody that starts later. Waits are woken in the order in which they
// began; a Push wakes all who wait for the key, but only one who wants to Pop.
package store
