// Package guard keeps strangers out: who a process is (TLS), what it may do (the
// token), and how much of us a peer may use (limits). It holds no policy: the
// lighthouse and the manager say which calls need what.
//
// # Usage
//
//	g, err := guard.Open(guard.Options{TLSCA: …, TLSCert: …, TLSKey: …, TokenFile: …})
//	tls.Server(conn, g.TLS.Server())            // mutual TLS, TLS 1.3 only
//	tls.Client(conn, g.TLS.Client("host", to))  // the host's name and role are checked
//	md := g.Token.Prove(method, body)           // the token itself is never sent
//	err = g.Token.Check(md, method, body)
//
// Everything may be left out of Options: without certificates g.TLS is nil,
// without a token g.Token is empty, and the zero Options guard nothing.
//
// # Files
//
// An [Identity] and a [Token] read their files again when these change (at most
// once a second, when they are used), so certificates and tokens are renewed
// without a restart. A file that cannot be read, or a key that does not fit its
// certificate (a renewal that is half done), leaves what was there in force.
// Connections that stand are not cut by a renewal. No package here starts a
// goroutine to watch.
//
// # Ends
//
// [Guard.TellExpiry] writes to a log before the certificate of this process, or the CA
// that signed it, ends; its caller's goroutine works it. A handshake that fails
// because a certificate does not hold at the moment ends in a [*ValidityError], see
// [Explain]: it names the certificate, its dates, and what to do.
//
// # Names
//
// A server's certificate must carry the host that was dialled, or, with
// Options.TLSServerName, that name instead: so one certificate can do for all
// processes of a cluster whose addresses nobody knows beforehand. A client's
// certificate must be of the same CA and be meant for clients; its name is not
// looked at.
//
// # Roles
//
// A certificate says in a URI what its holder is: skerry://role/lighthouse,
// …/replica or …/operator, and of a replica, if it is bound to one, its job:
// skerry://job/NAME. [PeerOf] reads both. Clients check the role of the server that
// they dial, servers that of their clients, call by call ([Guard.CheckRole]) or in
// the handshake ([Identity.ServerFor]). A certificate without a role is refused,
// unless Options.TLSAnyRole.
//
// # Secrets
//
// A [Secret] never shows its bytes: not through fmt, JSON, zerolog or an error.
// Secrets come from files and from the environment, never from flags, which
// every user of a machine can read.
//
// # Proofs
//
// All are made by package internal/proof, each for a purpose of its own.
// [Token.Prove] makes a MAC over the method, the body, the time and a nonce.
// Who reads it on the wire can repeat that very request for ProofAge, and do
// nothing else with it. [Dialogue] is a challenge and a response, for streams.
// A join token (Token.JoinTokens) is derived from the operators' one for a job: its
// proofs are good for joining that job alone, and who holds no more checks an
// operator's order by a public key ([Token.Order]).
// The quorum's own token is proved likewise, in the greetings of store and pg/tcp, by
// a checkpoint's readers, and by ranks that meet in NCCL.
//
// # Concurrency
//
// Everything here is safe for concurrent use.
package guard
